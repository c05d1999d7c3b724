/*
 * frontend.h - from a source file to checked step IR
 */
#ifndef TFD_FRONTEND_FRONTEND_H
#define TFD_FRONTEND_FRONTEND_H

#include <stdbool.h>
#include <stddef.h>
#include "ir/ir.h"

/* The options of the command line. */
typedef struct FeOptions {
    const char *path; /* of the source: its name in messages; files that it uses
                         are looked for beside it */
    const char *text; /* its len bytes; they must outlive the Diag */
    size_t len;
    const char *const *defines; /* "NAME=VALUE" of each -D */
    int num_defines;
    const char *strategy; /* --strategy, or NULL: the file's, else by devices */
    const char *devices;  /* --devices, or NULL: the file's, else cpu:0 */
    int num_workers;      /* --workers, or 0: the file's, else one */
    const char *cross;    /* --cross-device-ops, or NULL: the file's or auto */
    const char *parameters; /* --parameter-device, or NULL: the file's, else the
                               first device */
    bool widen;             /* f32 becomes f64 everywhere */
} FeOptions;

/*
 * The program of a source file as a module of phase ir, or NULL when there were
 * errors, all of which are in d then; warnings go there too.
 *
 * The module is in a and its names are in names; it does not refer to options
 * afterwards.
 */
IrModule *fe_compile(Arena *a, Intern *names, Diag *d,
                     const FeOptions *options);

#endif
