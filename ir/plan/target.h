/*
 * target.h - levels of the x86-64 ABI as targets
 *
 * A target is one of the levels of the x86-64 ABI, best first: the CPU tells
 * which ones it runs, and code for a level runs on every better one.
 */
#ifndef TFD_IR_PLAN_TARGET_H
#define TFD_IR_PLAN_TARGET_H

#include <stdbool.h>

/* The targets' names, best first, then NULL. */
extern const char *const target_names[];

/* Whether code for the named target runs on this CPU; false for a name that
 * is no target. */
bool target_runs_here(const char *name);

/* The best target of this machine, or NULL if it has none of them. */
const char *target_here(void);

#endif
