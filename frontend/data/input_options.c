/*
 * input_options.c - what is ready on the devices: TensorFlow's InputOptions
 *
 * While a step computes, the elements of the next ones are copied to each
 * replica's device, as many as per_replica_buffer_size says; without
 * fetch_to_device they stay on the host, where so many are ready then.
 * Pipelines themselves are executed by the host, whatever the devices are.
 */
#include "frontend/context/messages.h"
#include "frontend/data/data.h"

#include <string.h>

static bool
read_buffer(Lower *cx, const FeArgs *in, int i, int64_t *out)
{
    *out = 1;
    if (!fe_arg_int(cx, in, i, "per_replica_buffer_size", out))
        return false;
    if (*out >= 0 && *out <= IR_MAX_PREFETCH)
        return true;
    fe_error(cx, fe_arg_loc(in, i),
             "per_replica_buffer_size is from 0, where nothing is copied "
             "ahead, to %d, not %lld",
             IR_MAX_PREFETCH, (long long)*out);
    return false;
}

/* As in TensorFlow, it asks for a pipeline for each replica, whose elements
 * need not be fetched. */
static bool
refuse_placing(Lower *cx, const FeArgs *in, int i, bool fetches)
{
    const char *pipelines = fe_arg_enum_name(in, 1);
    bool per_replica = pipelines && !strcmp(pipelines, "per_replica");
    Loc loc = fe_arg_loc(in, i);
    if (!per_replica)
        fe_error_note(cx, loc, "leave it out",
                      "place_dataset_on_device asks for a pipeline for each "
                      "replica, pipelines = per_replica");
    else if (fetches)
        fe_error_note(cx, loc, "leave one of them out",
                      "a dataset that is placed on the device has nothing to "
                      "fetch: place_dataset_on_device goes with "
                      "fetch_to_device = false");
    else
        fe_error_note(cx, loc,
                      "leave both out: elements that are ready are copied to "
                      "the devices",
                      "datasets are made by the host, and none is placed on a "
                      "device");
    return false;
}

bool
fe_input_options(Lower *cx, const FeArgs *in, int i, FeDistDataset *out)
{
    bool fetches = true, places = false;
    if (!fe_arg_bool(cx, in, i, "fetch_to_device", &fetches) ||
        !fe_arg_bool(cx, in, i + 2, "place_dataset_on_device", &places))
        return false;
    if (places)
        return refuse_placing(cx, in, i + 2, fetches);
    out->on_host = !fetches;
    return read_buffer(cx, in, i + 1, &out->buffer);
}
