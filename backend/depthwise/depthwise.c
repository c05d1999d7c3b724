/*
 * depthwise.c - the loops of depthwise convolutions, and of narrow groups
 *
 * An image is gone through in bands of rows of windows: x, packed for a band
 * and a register of channels, fits the first-level cache.
 */
#include "backend/depthwise/depthwise.h"

enum { BAND_BYTES = 40 << 10 /* of packed x */ };

/* Rows of windows whose x fits, evenly divided; at least one. */
static int64_t
choose_band(const DepthwiseCode *c)
{
    const DepthwiseAxis *a = c->d->axes;
    int64_t line = be_depthwise_reach(&a[1], a[1].windows) * c->place_bytes;
    int64_t rows = BAND_BYTES / line, most = 1;
    if (rows > a[0].places)
        most = (rows - a[0].places) / a[0].step + 1;
    int64_t bands = (a[0].windows + most - 1) / most;
    return (a[0].windows + bands - 1) / bands;
}

static void
open_packed(DepthwiseCode *c)
{
    const DepthwiseAxis *a = c->d->axes;
    c->band = choose_band(c);
    int64_t rows = be_depthwise_reach(&a[0], c->band);
    int64_t places = rows * be_depthwise_reach(&a[1], a[1].windows);
    c->packed = be_alloca(c->e->u, c->vector,
                          (uint64_t)(places * c->place_bytes / c->bytes),
                          (unsigned)c->bytes, "packed");
}

/* Elements that move among themselves by one instruction. */
static int
part_of(const Depthwise *d, int lanes)
{
    int part = DEPTHWISE_PART_BYTES / (int)dtype_info[d->contract->dtype].bytes;
    return part < lanes ? part : lanes;
}

void
be_depthwise_emit(Emit *e, const Depthwise *d)
{
    DepthwiseCode c = {.e = e, .d = d};
    EmitTile outer = e->tile;
    int lanes = be_emit_choose_lanes(e, &d->loop->loop.body,
                                     be_var_bound(e->k, d->channel));
    e->tile = (EmitTile){.rows = 1,
                         .vectors = 1,
                         .lanes = lanes,
                         .lane = d->channel,
                         .row = d->of_weights ? NULL : d->axes[1].window};
    be_emit_find_varying(e, e->tile.row);
    c.vector = be_vector(be_emit_type(e, d->contract->dtype), lanes);
    c.bytes = lanes * (int64_t)dtype_info[d->contract->dtype].bytes;
    c.part = part_of(d, lanes);
    c.place_bytes = c.bytes * (d->width > c.part ? d->width / c.part : 1);
    open_packed(&c);
    if (d->of_weights)
        be_depthwise_emit_weights(&c);
    else
        be_depthwise_emit_windows(&c);
    e->tile = outer;
}
