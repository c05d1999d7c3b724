/*
 * hostlist.h - lists as Slurm abbreviates them
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_HOSTLIST_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_HOSTLIST_H

#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "ir/base/vec.h"

typedef VEC(const char *) RtNames;
typedef VEC(int) RtCounts;

/* "n[1-2],m5,o[08-10,12]": n1 n2 m5 o08 o09 o10 o12.  from: the variable, for
 * messages. */
Status rt_hostlist(Arena *a, const char *from, const char *text,
                   RtNames *out) MUST_USE;

/* "3(x2),2,1": 3 3 2 1. */
Status rt_repeated_counts(Arena *a, const char *from, const char *text,
                          RtCounts *out) MUST_USE;

#endif
