/*
 * rows.h - the times of sites, added up by line, function, layer, ...
 */
#ifndef TFD_RUNTIME_PROFILE_ROWS_H
#define TFD_RUNTIME_PROFILE_ROWS_H

#include "runtime/profile/peaks.h"
#include "runtime/profile/sites.h"

/* What a profile is by.  Of each, rows add up to the step; of variables, to
 * the kernels that read or write one. */
typedef enum RtBy {
#define BY(name, title, doc) RT_BY_##name,
#include "runtime/profile/tables.def"
#undef BY
    NUM_RT_BY
} RtBy;

typedef struct RtByInfo {
    const char *name, *title;
} RtByInfo;
extern const RtByInfo rt_by[NUM_RT_BY];

typedef struct RtRow {
    const char *name;
    Loc line;                 /* of kernels: the first of them; of lines */
    double seconds, calls;    /* of a step */
    double operations, bytes; /* of a step */
    double waits; /* of the seconds: a processor had nothing to do */
    double phases[NUM_RT_PHASES]; /* the seconds of each */
    const RtTimedSite *last;      /* that was added */
} RtRow;

typedef struct RtTable {
    VEC(RtRow *) rows; /* those that take longest first */
    Map *by_name;
} RtTable;

typedef struct RtReport {
    RtTimedSites sites;
    RtPeaks peaks; /* of a device */
    RtTable tables[NUM_RT_BY];
    double seconds; /* of a step: what sites take together; of the run where
                       there are no steps */
    double outside; /* of main outside of steps */
} RtReport;

/* What limits a row: "arithmetic", "memory", "latency" or "waiting". */
const char *rt_row_bound(const RtRow *r, const RtPeaks *peaks);

/* All of it, in the run's arena. */
Status rt_profile_rows(RtRun *run, RtReport *out) MUST_USE;

#endif
