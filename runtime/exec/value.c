/*
 * value.c - the sizes of values
 */
#include "runtime/exec/value.h"

#include <assert.h>
#include "ir/analysis/hooks.h"

RtValue
rt_value_of(const IrModule *m, const IrValue *v)
{
    RtValue out = {
        .place = v->place, .dtype = v->type.dtype, .rank = v->type.rank};
    for (int i = 0; i < out.rank; i++) {
        Dim d = v->type.dims[i];
        int word = d.sym < 0 ? -1 : ir_symbol_word(m, d.sym);
        out.dims[i] = (RtDim){d.c, d.k, word};
    }
    return out;
}

int64_t
rt_dim(const RtDim *d, const int64_t *dims)
{
    int64_t size = d->word < 0 ? d->c : d->c + d->k * dims[d->word];
    return size > 0 ? size : 0;
}

int64_t
rt_value_count(const RtValue *v, const int64_t *dims)
{
    int64_t n = 1;
    assert(v->rank >= 0 && v->rank <= IR_MAX_RANK);
    for (int i = 0; i < v->rank; i++)
        n *= rt_dim(&v->dims[i], dims);
    return n;
}

size_t
rt_value_bytes(const RtValue *v, const int64_t *dims)
{
    return (size_t)rt_value_count(v, dims) * dtype_info[v->dtype].bytes;
}
