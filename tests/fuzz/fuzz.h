/*
 * fuzz.h - the readers of files that may be damaged, as functions of bytes
 *
 * A target ends with a refusal that has a message, or with something valid
 * that is then checked: texts print and read back to the same text, modules
 * go through the passes and verify after each.  Anything else ends the process.
 */
#ifndef TFD_TESTS_FUZZ_H
#define TFD_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>

typedef struct FuzzTarget {
    const char *name;
    bool is_text; /* for generators of inputs */
    /* Whether the bytes are valid.  path is their name in messages, and the
     * folder in which a program looks for other files. */
    bool (*run)(const char *path, const char *bytes, size_t len);
} FuzzTarget;

/* The target called name; if there is none, ends the process with the list of
 * targets. */
const FuzzTarget *fuzz_target(const char *name);

/* What the last input was refused with, of plan, checkpoint and files; its
 * first 255 bytes. */
const char *fuzz_refusal(void);

/* Something impossible happened: prints it and aborts. */
_Noreturn void fuzz_bug(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
