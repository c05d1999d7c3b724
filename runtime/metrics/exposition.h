/*
 * exposition.h - a job's numbers as Prometheus reads them
 *
 * The text format, version 0.0.4.
 */
#ifndef TFD_RUNTIME_METRICS_EXPOSITION_H
#define TFD_RUNTIME_METRICS_EXPOSITION_H

#include "ir/base/str.h"
#include "runtime/ps/wire/wire.h"

void rt_metrics_write(Str *out, const RtPsStatus *s);

#endif
