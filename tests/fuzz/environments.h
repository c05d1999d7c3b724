/*
 * environments.h - what says which process of a job this one is
 */
#ifndef TFD_TESTS_FUZZ_ENVIRONMENTS_H
#define TFD_TESTS_FUZZ_ENVIRONMENTS_H

#include <stddef.h>
#include "ir/base/status.h"

/* Finds out which process this is from lines of NAME=value, one for each
 * variable; PODS is a list of pods. */
Status environment_try(const char *bytes, size_t len) MUST_USE;

#endif
