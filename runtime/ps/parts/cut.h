/*
 * cut.h - what of an update's arguments goes to the server of each part
 */
#ifndef TFD_RUNTIME_PS_PARTS_CUT_H
#define TFD_RUNTIME_PS_PARTS_CUT_H

#include "runtime/checkpoint/archive.h"
#include "runtime/ps/parts/placement.h"

/* What a push has, while a program executes it. */
typedef struct RtCut {
    RtInvocation *inv;
    const RtHostOp *h;
    const RtUpdate *update;
    const RtPushOp *push;
    const char **bytes; /* of each operand, */
    size_t *sizes;      /* how many, */
    size_t *each;       /* and of them those of a row or an entry */
    int64_t num_entries;
    int *part_of;            /* each entry, */
    int64_t *counts, *first; /* of each part: how many, and where in order */
    int64_t *order;          /* the entries, part by part */
} RtCut;

/* What it has, and which part has which entry; in arena a. */
RtCut rt_cut_begin(Arena *a, RtInvocation *inv, const RtHostOp *h,
                   const RtPlacement *p);
/* Whether the update has something to do for part k. */
bool rt_cut_concerns(const RtCut *c, int k);
/* Some of the rows that an update sets in a part: which, and their bytes. */
void rt_cut_write_rows(const RtCut *c, const RtPart *part, int64_t first,
                       int64_t num, RtArchive *out);
/* What it needs there: the sizes of batches and its arguments. */
void rt_cut_write(RtCut *c, const RtPart *part, RtArchive *out);

#endif
