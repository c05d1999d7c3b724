/*
 * library.h - the standard library: files of tfd that are part of the compiler
 *
 * Written in lib/, made C by lib/gen_library.c.
 */
#ifndef TFD_FRONTEND_LIB_LIBRARY_H
#define TFD_FRONTEND_LIB_LIBRARY_H

#include <stddef.h>

typedef struct FeLibraryFile {
    const char *name; /* in a program's use: "nn" */
    const char *file; /* in messages: "nn.tfd" */
    const char *text; /* ends in a zero byte beyond len */
    size_t len;
} FeLibraryFile;

extern const FeLibraryFile fe_library[];
extern const int fe_library_len;

#endif
