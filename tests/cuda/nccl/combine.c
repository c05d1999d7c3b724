/*
 * combine.c - elements of the types that NCCL has
 */
#include "ir/base/number/dtype.h"
#include "tests/cuda/nccl/fake_nccl.h"

static DType
dtype_of(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
        return DT_i8;
    case ncclUint8:
        return DT_u8;
    case ncclInt32:
        return DT_i32;
    case ncclInt64:
        return DT_i64;
    case ncclFloat16:
        return DT_f16;
    case ncclFloat32:
        return DT_f32;
    case ncclFloat64:
        return DT_f64;
    case ncclBfloat16:
        return DT_bf16;
    case ncclUint32:
    case ncclUint64:
        break;
    }
    nccl_complain("nobody reduces type %d", (int)type);
}

size_t
nccl_bytes_of(ncclDataType_t type)
{
    return dtype_info[dtype_of(type)].bytes;
}

static double
combine_floats(ncclRedOp_t op, double a, double b)
{
    if (op == ncclSum)
        return a + b;
    return (op == ncclMax) == (a > b) ? a : b;
}

static int64_t
combine_ints(ncclRedOp_t op, int64_t a, int64_t b)
{
    if (op == ncclSum)
        return (int64_t)((uint64_t)a + (uint64_t)b);
    return (op == ncclMax) == (a > b) ? a : b;
}

void
nccl_combine(ncclDataType_t type, ncclRedOp_t op, void *to, const void *with,
             size_t count)
{
    DType t = dtype_of(type);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        Scalar a = scalar_load(t, to, i), b = scalar_load(t, with, i);
        if (dtype_is_float(t)) {
            a.f = combine_floats(op, a.f, b.f);
            if (t == DT_f32) /* rounded once, also where that is not free */
                a.f = (float)a.f;
        } else {
            a.i = combine_ints(op, a.i, b.i);
        }
        scalar_store(t, to, i, a);
    }
}
