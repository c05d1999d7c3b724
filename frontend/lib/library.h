/*
 * library.h - the standard library: files of tfd that are part of the compiler
 *
 * Written in lib/, made C by lib/gen_library.c.
 */
#ifndef TFD_FRONTEND_LIB_LIBRARY_H
#define TFD_FRONTEND_LIB_LIBRARY_H

#include <stddef.h>

typedef struct FeLibraryFile {
    const char *name; /* what a program uses: "nn" */
    const char *file; /* what messages call it: "nn.tfd" */
    const char *text; /* ends in a zero byte beyond len */
    size_t len;
} FeLibraryFile;

extern const FeLibraryFile fe_library[];
extern const int fe_library_len;

#endif
