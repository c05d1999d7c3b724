/*
 * events.h - event files, which TensorBoard shows
 *
 * A file of TFRecords, each an Event message of TensorFlow's event.proto and
 * summary.proto.  Events are in the file at once, so that TensorBoard shows a
 * run in progress.
 */
#ifndef TFD_RUNTIME_CHECKPOINT_EVENTS_H
#define TFD_RUNTIME_CHECKPOINT_EVENTS_H

#include <stdbool.h>
#include "ir/base/number/dtype.h"
#include "ir/base/status.h"

typedef struct RtEvents RtEvents;

/* Creates a file events.out.tfevents.TIME.HOST.PID in a folder, which is made.
 */
Status rt_events_open(const char *folder, RtEvents **out) MUST_USE;
/* Opens a file of such a folder and keeps its first len bytes: the events after
 * them happen again. */
Status rt_events_continue(const char *folder, const char *name, int64_t len,
                          RtEvents **out) MUST_USE;
/* Whether such files have such names. */
bool rt_events_is_name(const char *name);
/* The position for rt_events_continue: the name and length of the file. */
const char *rt_events_name(const RtEvents *e);
int64_t rt_events_bytes(const RtEvents *e);
/* Makes all events durable. */
Status rt_events_sync(RtEvents *e) MUST_USE;
/* NULL is allowed. */
void rt_events_close(RtEvents *e);

Status rt_events_scalar(RtEvents *e, const char *tag, int64_t step,
                        double value) MUST_USE;

/* The distribution of n numbers: 30 equal buckets from the least to the
 * greatest finite number. */
Status rt_events_histogram(RtEvents *e, const char *tag, int64_t step, DType t,
                           const void *data, int64_t n) MUST_USE;

#endif
