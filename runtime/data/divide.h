/*
 * divide.h - a global batch among the replicas
 */
#ifndef TFD_RUNTIME_DATA_DIVIDE_H
#define TFD_RUNTIME_DATA_DIVIDE_H

#include "runtime/data/node.h"

/* One step's data: a part for each replica. */
typedef struct RtStep {
    RtElement *parts; /* one a replica; parts[r].rows are its rows */
    int64_t all_rows;
} RtStep;

typedef struct RtDivision RtDivision;

/* How the elements of pipeline `last` are divided (data.h); room for what it
 * needs is in last's arena. */
RtDivision *rt_division_new(RtNode *last, const IrIter *iter,
                            const IrDataset *dataset, int num_replicas);
/* Room for one step. */
RtStep rt_step_new(const RtDivision *d);
/* After the pipeline was rewound. */
void rt_division_rewind(RtDivision *d);
/* The next step's parts; *end when no replica has data. */
Status rt_division_next(RtDivision *d, RtStep *step, bool *end) MUST_USE;
const char *rt_division_name(const RtDivision *d);

#endif
