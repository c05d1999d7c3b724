/*
 * summaries.h - what a step gives summary(), until the step ends
 *
 * A summary of a step is a line among those that the step prints: of the
 * replica's lines, and in their order.  Its text is the value as bytes and then
 * the tag.
 */
#ifndef TFD_RUNTIME_EXEC_SUMMARIES_H
#define TFD_RUNTIME_EXEC_SUMMARIES_H

#include "ir/base/number/dtype.h"
#include "ir/base/status.h"
#include "ir/base/str.h"

typedef struct RtRun RtRun;

/* A scalar, or the n numbers of a tensor. */
typedef struct RtSummary {
    int64_t step;
    bool is_scalar;
    DType dtype;
    int64_t n;
    const void *data; /* aligned for them */
} RtSummary;

/* Adds the value to a line; the tag is to follow. */
void rt_summary_pack(Str *to, const RtSummary *s);
/* Writes a line of len bytes to the event file, if this process has one. */
Status rt_summary_write_line(RtRun *run, const char *line, size_t len) MUST_USE;
/* The same at once. */
Status rt_summary_write(RtRun *run, const char *tag,
                        const RtSummary *s) MUST_USE;

#endif
