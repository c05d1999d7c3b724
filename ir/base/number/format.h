/*
 * format.h - values as text, for print and assert
 *
 * Without a format a value reads as in NumPy 1.24: the shortest decimal that
 * reads back, tensors in brackets, aligned, wrapped at 75 columns, those of
 * more than 1000 elements cut short.  A format is one of Python's,
 *
 *   [[fill]align][sign][#][0][width][,][.precision][type]
 *
 * with align < > ^ =, sign + - or space, and type d x X b o for integers,
 * e E f F g G % for all numbers, and s for text (u8[n] is its bytes, of which
 * a precision is the most).  In a tensor each element is formatted so, and all
 * of them are as wide as the widest.
 */
#ifndef TFD_IR_BASE_FORMAT_H
#define TFD_IR_BASE_FORMAT_H

#include "ir/base/number/dtype.h"
#include "ir/base/str.h"

typedef struct FormatArg {
    DType dtype;
    int rank; /* 0: a scalar */
    const int64_t *dims;
    const void *data; /* row-major */
} FormatArg;

/* Appends text with its {} and {:format} replaced by the values, {{ and }} by
 * braces.  Formats that format_check rejects print as if there were none. */
void format_text(Str *out, const char *text, int num, const FormatArg *args);

/* The format of a number that messages about indices have, and programs do
 * not: how many things are numbered from 0 to an integer, one more than it. */
#define FORMAT_COUNT ":n"

/* Formats that print nothing, which such messages have also: the text behind
 * the first is there where an integer can be a count, the text behind the other
 * where it is below 0. */
#define FORMAT_IF_COUNT ":?"
#define FORMAT_IF_NEGATIVE ":!"

/* Appends one value; spec is the text after the colon, of len bytes. */
void format_value(Str *out, const char *spec, size_t len, const FormatArg *arg);

/* A word that stands in formats as {$name}, and is only known when the program
 * is run. */
typedef struct FormatName {
    const char *name, *value;
} FormatName;

/* The format with the values of such words in it, their braces doubled; NULL:
 * one of them is not among the n names.  In a. */
const char *format_fill(Arena *a, const char *format, const FormatName *names,
                        int n);

/* NULL if text has a place for each of num values, with formats that fit their
 * dtypes, else a message, in a. */
const char *format_check(Arena *a, const char *text, int num,
                         const DType *dtypes);
/* The same of a program's own text, which has none of the formats above. */
const char *format_check_written(Arena *a, const char *text, int num,
                                 const DType *dtypes);

#endif
