/*
 * process.h - a process that tfd-run -n starts, and the signals of its parent
 *
 * Each is this program again, in a process group of its own, so that a signal
 * from the terminal comes once, from the parent; each dies with the parent.
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_PROCESS_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "runtime/cluster/launch/lines.h"

#define RT_KEY_VARIABLE "TFD_KEY_FD"           /* the key's pipe */
#define RT_ANNOUNCE_VARIABLE "TFD_ANNOUNCE_FD" /* the announcements' pipe */

#define RT_INCARNATION_VARIABLE "TFD_INCARNATION" /* of a worker */
#define RT_CRASH_VARIABLE                                                      \
    "TFD_CRASH" /* the signal of its predecessor's end                         \
                 */

/* Of processes that share a machine, each with threads for all of its cores:
 * one that spins has a core that another one waits for (hal/wait.h). */
#define RT_DOES_NOT_SPIN "TFD_SPIN=0"

typedef struct RtProcess {
    pid_t pid;     /* 0: not started, or reaped */
    int pidfd;     /* -1: none */
    RtLines lines; /* of what has a label */
    int announce;  /* what it announces comes here; -1: nothing */
} RtProcess;

typedef struct RtProcessConfig {
    char **argv;
    const char *const *variables; /* "NAME=VALUE" beside the parent's, which
                                     they replace; then NULL */
    const uint8_t *key;           /* RT_JOB_KEY bytes, through a pipe */
    const char *label;    /* before each line that it writes; NULL: it has the
                             parent's standard input and output */
    bool announces;       /* it gets a pipe for that */
    const sigset_t *mask; /* that it begins with */
} RtProcessConfig;

/* How a process has ended. */
typedef struct RtProcessEnd {
    pid_t pid;
    bool killed;
    int number; /* the exit status, or the signal */
} RtProcessEnd;

/* Not started. */
RtProcess rt_no_process(void);

/* Starts this program.  A failure leaves nothing. */
Status rt_process_start(const RtProcessConfig *config, RtProcess *out) MUST_USE;
/* Whether it has ended, and is reaped; then *end is how. */
bool rt_process_reap(RtProcess *p, RtProcessEnd *end);
/* Does nothing if it does not run. */
void rt_process_signal(const RtProcess *p, int signal_number);
/* Shows what it has written, and closes its pipes; it has ended. */
void rt_process_close(RtProcess *p);

/* Random bytes that nobody else has. */
Status rt_make_secret(void *out, size_t bytes) MUST_USE;

/* What the parent passes on (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2), and
 * SIGTSTP, as events of fd. */
typedef struct RtSignals {
    int fd; /* a signalfd; -1: not taken */
    sigset_t passed, old_mask;
} RtSignals;

Status rt_signals_take(RtSignals *s) MUST_USE;
/* One that has come; 0: none. */
int rt_signals_next(const RtSignals *s);
void rt_signals_give_back(RtSignals *s);
/* Waits so long before a job is started again; false: a signal came that would
 * have ended it. */
bool rt_signals_wait(const RtSignals *s, double seconds);

/* Where nobody reads the output any more there is nobody to run for. */
bool rt_is_output_closed(void);

#endif
