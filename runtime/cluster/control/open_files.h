/*
 * open_files.h - whether a process may open as many files as a job needs
 *
 * libzmq ends the process where it gets no descriptor, or does not connect, so
 * that a job waits for a process that cannot come.  So the limit is raised as
 * far as it goes, and looked at, before anything is opened.
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_OPEN_FILES_H
#define TFD_RUNTIME_CLUSTER_CONTROL_OPEN_FILES_H

#include <stdbool.h>
#include "ir/base/status.h"

/* A process of a job, or the parent of tfd-run -n. */
typedef struct RtFileUse {
    int size;          /* processes of the job */
    bool is_parent;    /* and their control server */
    bool is_member;    /* one of them, or starts some, which have its limit */
    bool has_server;   /* a member with the control server */
    bool has_messages; /* its link is not shared memory */
} RtFileUse;

/* Raises the soft limit of open files to the hard one.  A failure
 * (STATUS_MACHINE) says how many are needed where that is too low. */
Status rt_provide_files(const RtFileUse *use) MUST_USE;

#endif
