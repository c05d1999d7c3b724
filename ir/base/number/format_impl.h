/*
 * format_impl.h - shared by formats of elements and the layout of tensors
 */
#ifndef TFD_IR_BASE_FORMAT_IMPL_H
#define TFD_IR_BASE_FORMAT_IMPL_H

#include "ir/base/number/format.h"

/* Longer than any element: "%.100f" of 1e308 with thousands separated. */
enum { ELEMENT_MAX = 1024 };

/* A parsed format. */
typedef struct FormatSpec {
    char fill;      /* ' ' */
    char align;     /* 0: right for numbers, left for text */
    char sign;      /* '-' */
    bool alternate; /* # */
    bool group;     /* , */
    int width;      /* 0 */
    int precision;  /* -1 */
    char type;      /* 0 */
    bool given;     /* whether there is a format */
} FormatSpec;

/* The value of one element by spec, without its width; writes at most
 * ELEMENT_MAX bytes with the zero at the end. */
void format_element(char *to, const FormatSpec *spec, Scalar x);
/* The same with its width. */
void format_padded(char *to, const FormatSpec *spec, Scalar x);

/* As a scalar reads in NumPy. */
void format_scalar(char *to, Scalar x);

/* The shortest digits that read back as x, without the dot, and the exponent
 * of the first: 1234 and 1 for 12.34.  x is finite. */
typedef struct Digits {
    char digits[24];
    int num;
    int exponent;
    bool negative;
} Digits;

Digits format_digits(Scalar x);

/* Appends a tensor; spec is NULL for the layout of NumPy's elements. */
void format_tensor(Str *out, const FormatSpec *spec, const FormatArg *arg);

#endif
