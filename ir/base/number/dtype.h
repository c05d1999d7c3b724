/*
 * dtype.h - element types and single elements
 */
#ifndef TFD_IR_BASE_DTYPE_H
#define TFD_IR_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DType {
#define DTYPE(name, bytes, kind, numpy) DT_##name,
#include "ir/base/number/dtypes.def"
#undef DTYPE
    NUM_DTYPES
} DType;

typedef enum DTypeKind {
    DTYPE_FLOAT,
    DTYPE_SIGNED,
    DTYPE_UNSIGNED,
    DTYPE_BOOLEAN
} DTypeKind;

typedef struct DTypeInfo {
    const char *name;
    size_t bytes;
    DTypeKind kind;
    const char *numpy;
} DTypeInfo;

extern const DTypeInfo dtype_info[NUM_DTYPES];

/* Finds a dtype by name; false if there is none. */
bool dtype_by_name(const char *name, DType *out);
bool dtype_is_float(DType t);
bool dtype_is_int(DType t); /* signed or unsigned, not bool */

/* The dtype that t is computed in: f32 for bf16 and f16, else t (D4). */
DType dtype_compute(DType t);

/* Rounding to nearest, ties to even; NaN stays NaN. */
uint16_t f32_to_bf16(float x);
float bf16_to_f32(uint16_t x);
uint16_t f32_to_f16(float x);
float f16_to_f32(uint16_t x);

/* One element of any dtype.  Floats are held in f (exact for all of them),
 * integers and bool in i. */
typedef struct Scalar {
    DType dtype;
    union {
        double f;
        int64_t i;
    };
} Scalar;

/* Element number index of an array. */
Scalar scalar_load(DType t, const void *array, int64_t index);
/* Stores s, converted to t by scalar_cast. */
void scalar_store(DType t, void *array, int64_t index, Scalar s);
/* D5: int to int wraps; float to int saturates with NaN to 0; float to a
 * narrower float rounds to nearest even; anything to bool is x != 0. */
Scalar scalar_cast(Scalar s, DType to);
Scalar scalar_float(DType t, double x); /* x rounded to t */
Scalar scalar_int(DType t, int64_t x);  /* x wrapped to t */
/* Whether a literal is representable in t: an integer must be in range. */
bool int_fits(DType t, int64_t x);
/* The range of an integer dtype. */
int64_t int_min(DType t);
int64_t int_max(DType t);

#endif
