/*
 * npy.h - headers of .npy files
 */
#ifndef TFD_RUNTIME_DATA_NPY_H
#define TFD_RUNTIME_DATA_NPY_H

#include "runtime/data/files.h"

enum { NPY_MAX_RANK = 32 };

typedef struct RtNpyHeader {
    char descr[16]; /* '<f4' */
    bool fortran_order;
    int rank;
    int64_t shape[NPY_MAX_RANK];
    size_t offset; /* of the first element in the file */
} RtNpyHeader;

/* Reads the header of a file's len bytes; false if it is not one.  Any bytes
 * are safe.  Does not check that all elements are there. */
bool rt_npy_parse(const char *data, size_t len, RtNpyHeader *h);

/* The header of stream s, which is left at the first row: rows of component
 * number i of file f's elements, or an error.  array names it in an .npz, else
 * it is NULL. */
Status rt_npy_begin(const RtFile *f, RtStream *s, int i, const char *array,
                    RtNpyHeader *h) MUST_USE;

#endif
