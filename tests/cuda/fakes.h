/*
 * fakes.h - what suites that run commands on the fake driver share
 *
 * A group has an arena and a folder for its plans (tests/unit/dir.h).
 */
#ifndef TFD_TESTS_CUDA_FAKES_H
#define TFD_TESTS_CUDA_FAKES_H

#include <stdlib.h>
#include "tests/unit/dir.h"

/* The commands that follow find the driver in this folder; options are those of
 * TFD_FAKE_CUDA. */
static inline void
set_driver(const char *folder, const char *options)
{
    setenv("LD_LIBRARY_PATH", folder, 1);
    setenv("TFD_FAKE_CUDA", options, 1);
}

static inline void
set_fake(const char *options)
{
    set_driver(getenv("TFD_FAKE_DRIVER"), options);
}

#endif
