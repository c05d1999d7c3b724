/*
 * calls.h - what the driver's functions have in common
 *
 * They are defined under the real cuda.h where there is one.  What hardware or
 * the driver would answer with an error is an error here; what it would punish
 * silently, or much later, ends the process with a complaint.
 */
#ifndef TFD_TESTS_CUDA_FAKE_CALLS_H
#define TFD_TESTS_CUDA_FAKE_CALLS_H

#include "tests/cuda/fake/fake.h"

#ifndef CUDAAPI
#define CUDAAPI
#endif
#define EXPORT __attribute__((visibility("default"))) CUresult CUDAAPI

/* What a function needs; those that release or give back also work on a device
 * that has failed. */
typedef enum Need {
    ANYTIME,
    INITIALISED,
    RELEASES,
    CONTEXT,
    GIVES_BACK
} Need;

extern _Thread_local CUcontext fake_current;
extern _Thread_local bool fake_in_callback;

/* Takes the lock.  An error is that of the function; *number is its row of the
 * counts, once it is known. */
void fake_lock(void);
CUresult fake_enter(const char *call, int *number, Need need);
void fake_leave(int *unused);

/* The lock is held to the end of the function. */
#define ENTER(need)                                                            \
    static int number_of_call = -1;                                            \
    int held __attribute__((cleanup(fake_leave), unused)) = 0;                 \
    CUresult failed = fake_enter(__func__, &number_of_call, need);             \
    if (failed && (need) != GIVES_BACK)                                        \
    return failed

/* The next run reads its options. */
void fake_forget_options(void);

/* Whether work may be pending that nobody could wait for: the device is lost,
 * or a call that waits has failed. */
bool fake_may_leave_work(void);

/* Objects belong to contexts. */
void fake_check_context(const char *call, CUcontext of, const char *what);

/* Adds an operation to a stream, or to what it captures.  The parameters become
 * the operation's. */
CUresult fake_enqueue(const char *call, CUstream stream, Op op);

/* Bytes of shared memory that a block may have, with leave (code.c). */
int fake_most_shared(void);

/* ---- capture (graphs.c) -------------------------------------------------- */

/* What a thread may not do while it captures: an error, and the end of the
 * captures that forbid it. */
CUresult fake_forbid_in_capture(void);
CUresult fake_capture(CUstream stream, const Op *op);
CUresult fake_capture_record(CUevent event, CUstream stream);
CUresult fake_capture_wait(CUstream stream, CUevent event);
/* The stream takes no part in a capture any longer. */
void fake_end_part(CUstream stream);
/* Of asking an event that a capture has recorded. */
CUresult fake_ask_captured(CUevent event);

#endif
