/*
 * resolve_impl.h - what the readers of this folder share
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_RESOLVE_IMPL_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_RESOLVE_IMPL_H

#include <jansson.h>
#include "runtime/cluster/resolve/resolve.h"

/* NULL: it is not set, or to nothing. */
const char *rt_variable(RtEnvironment env, const char *name);

/* Reads JSON without names that occur twice; from: what messages call it. */
Status rt_read_json(const char *from, const char *json, size_t len,
                    json_t **out) MUST_USE;

#endif
