/*
 * make.h - writes files of data in their formats
 *
 * A failure fails the test.
 */
#ifndef TFD_TESTS_DATA_MAKE_H
#define TFD_TESTS_DATA_MAKE_H

#include <stddef.h>
#include <stdint.h>
#include "ir/base/str.h"

/* The whole content of a file. */
void make_file(const char *path, const void *bytes, size_t len);

/* The same bytes packed: by gzip (MAKE_GZIP) or zlib (MAKE_ZLIB). */
enum { MAKE_ZLIB = 15, MAKE_GZIP = 31 }; /* as deflateInit2 has them */
void make_packed(const char *path, int packing, const void *bytes, size_t len);

/* ---- .npy and .npz ------------------------------------------------------- */

typedef struct MakeArray {
    const char *name;  /* in an .npz */
    const char *descr; /* '<f4' */
    const char *shape; /* (3, 2) */
    const void *elements;
    size_t bytes;
} MakeArray;

/* The bytes of an .npy file. */
Str make_npy(Arena *a, const MakeArray *array);
/* An .npz of n arrays, packed or not. */
void make_npz(const char *path, int n, const MakeArray *arrays, bool packed);

/* ---- TFRecord ------------------------------------------------------------ */

/* A record of n bytes, appended to the file. */
void make_record(Str *file, const void *bytes, size_t n);
/* One that is the Example with these features. */
void make_example(Str *file, const Str *features);

/* Features: a list of bytes, of integers (packed), of floats (one by one, as
 * old writers write them); or of n strings of two bytes each. */
void make_bytes(Str *features, const char *name, const char *bytes, size_t n);
void make_ints(Str *features, const char *name, int n, const int64_t *x);
void make_floats(Str *features, const char *name, int n, const float *x);
void make_strings(Str *features, const char *name, int n, const char *pairs);

#endif
