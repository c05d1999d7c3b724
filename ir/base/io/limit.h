/*
 * limit.h - limits on input: the rows of limit.def and their values
 *
 * The values are those of the process: the command line sets them once, before
 * anything is read, and from then on any thread may ask.
 */
#ifndef TFD_IR_BASE_LIMIT_H
#define TFD_IR_BASE_LIMIT_H

#include <stdint.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

typedef enum LimitId {
#define LIMIT(name, ...) LIMIT_##name,
#include "ir/base/io/limit.def"
#undef LIMIT
    NUM_LIMITS
} LimitId;

typedef struct LimitRow {
    const char *name;
    const char *of; /* "tfdc", "tfd_run", "both" */
    int64_t value;  /* the default */
    int64_t most;   /* the most that the command line may set; 0: fixed */
    const char *message; /* a format with one %lld */
    const char *about;
} LimitRow;

extern const LimitRow limit_rows[NUM_LIMITS];

/* Its current value. */
int64_t limit_value(LimitId id);

/* The message for an input that exceeds it, in a. */
const char *limit_message(Arena *a, LimitId id);
/* How to raise it, in a; NULL for a fixed limit. */
const char *limit_note(Arena *a, LimitId id);
/* Both as one failure of the named file: "\"a.tfp\": message; note". */
Status limit_status(LimitId id, const char *what) MUST_USE;

/* Sets a limit by the NAME=VALUE of a program's --limit.  VALUE may end in K, M
 * or G, which are powers of 1,000. */
Status limit_set(const char *program, const char *text) MUST_USE;

/* The text of --help for --limit. */
#define LIMIT_ARG "NAME=VALUE"
#define LIMIT_HELP                                                             \
    "raise (or lower) a limit on what is read or made, as the message of one " \
    "says; docs/limits.md has all"

#endif
