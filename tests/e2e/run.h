/*
 * run.h - helpers of tests that run the two programs as users do
 *
 * The build says where they are: TFDC and TFD_RUN in the environment, and
 * TFD_ROOT for the source tree.  Each test works in a folder of its own.
 */
#ifndef TFD_TESTS_E2E_RUN_H
#define TFD_TESTS_E2E_RUN_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "tests/unit/work_dir.h"

/* The output and status of a process; texts are in the arena given, with a 0
 * after them.  A program may print 0 bytes, too. */
typedef struct Ran {
    int code; /* exit status; 128 + n: ended by signal n */
    const char *out, *err;
    size_t out_len, err_len;
} Ran;

/* Runs a command line, split at spaces; "tfdc" and "tfd-run" are the built
 * programs.  Ends the test when it cannot be started, or has not ended after
 * two minutes. */
Ran run(Arena *a, const char *command, ...)
    __attribute__((format(printf, 2, 3)));
/* As run, and fails the test unless the exit status is 0. */
Ran run_ok(Arena *a, const char *command, ...)
    __attribute__((format(printf, 2, 3)));

/* The text of a file of the source tree, and writing one to anywhere. */
const char *source_text(Arena *a, const char *path);
void write_text(const char *path, const char *text);

/* text with its only occurrence of `from` replaced; fails the test if there is
 * not exactly one. */
const char *substitute(Arena *a, const char *text, const char *from,
                       const char *to);

#endif
