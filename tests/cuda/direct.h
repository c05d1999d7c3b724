/*
 * direct.h - calls of the CUDA driver without the runtime, for tests
 *
 * Device 0 of two of the fake driver, two streams, an event and memory; and a
 * process of its own for what ends it.
 */
#ifndef TFD_TESTS_CUDA_DIRECT_H
#define TFD_TESTS_CUDA_DIRECT_H

#include "tests/unit/unit.h"

#include "runtime/hal/cuda/cuda_impl.h"
#include "tests/cuda/add.h"

enum { DIRECT_BYTES = 8192 };

extern const CudaDriver *cu;
extern CUstream one, two;
extern CUevent event;
extern CUdeviceptr memory; /* so many bytes, as pinned */
extern char *pinned;

#define MUST(call) assert_int_equal(call, CUDA_SUCCESS)

/* Options of the fake driver; then what is above. */
void direct_prepare(const char *options);
/* What direct_prepare made is given back. */
void direct_release(void);
CUcontext direct_enter(int device);
/* Until what the stream has so far is executed. */
void direct_finish(CUstream stream);
/* The kernel, in the context that is current. */
CUfunction direct_load(CUmodule *module);
CUresult direct_launch(CUfunction add, CUdeviceptr at, uint64_t n,
                       CUstream stream);

/* f, after direct_prepare in a child process, ends it by a signal (0: f
 * returns) after a line with these words on standard error. */
void assert_dies(void (*f)(void), int signal_number, const char *says);

#define SAYS "fake driver: "

#endif
