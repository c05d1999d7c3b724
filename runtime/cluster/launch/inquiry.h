/*
 * inquiry.h - how `tfd-run --status PID` finds the coordinator of a job of -n
 *
 * Only the parent knows the port and the key of such a job.  It tells them to
 * processes of its own user, at a socket that is named by its pid.
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_INQUIRY_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_INQUIRY_H

#include <stdint.h>
#include "ir/base/status.h"
#include "runtime/cluster/control/job.h"

/* What somebody needs to ask a coordinator on this machine. */
typedef struct RtInquiryAnswer {
    uint16_t port;
    uint8_t key[RT_JOB_KEY];
} RtInquiryAnswer;

/* A descriptor that is readable when somebody asks this process; -1: nobody can
 * ask, which disturbs no job. */
int rt_inquiry_open(void);
/* Answers whoever asks now. */
void rt_inquiry_answer(int listener, const RtInquiryAnswer *answer);
/* Asks the parent of a job.  STATUS_USAGE: pid is none, or another user's;
 * STATUS_MACHINE: it does not answer, being stopped, or because its coordinator
 * does not listen yet. */
Status rt_inquiry_ask(int64_t pid, RtInquiryAnswer *out) MUST_USE;

#endif
