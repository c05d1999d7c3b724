/*
 * life.h - a run that is stopped and resumed after one of its steps
 */
#ifndef TFD_TESTS_RANDOM_LIFE_H
#define TFD_TESTS_RANDOM_LIFE_H

#include "runtime/run/run.h"

/* Runs the plan to one of its steps, which `seed` chooses, stops it there with
 * a checkpoint, and resumes it on the devices `then`; NULL, or why both
 * together did not print what an undisturbed run printed.  out and err of
 * options are not used. */
const char *life_check(Arena *a, const Plan *plan, const RtOptions *options,
                       const char *then, int64_t num_steps, uint64_t seed,
                       const char *want);

#endif
