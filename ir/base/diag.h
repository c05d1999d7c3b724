/*
 * diag.h - places in sources, and messages about them
 *
 * A message says what is wrong in one sentence, shows the line with the place
 * underlined, and may be followed by notes (the repair, the chain of calls):
 *
 *   linear.tfd:15:8: error: cannot assign a per_replica value to ...
 *      15 |   w -= 0.1 * dw
 *         |        ^~~~~~~~
 *   linear.tfd:15:8: note: did you mean all_reduce(sum, 0.1 * dw)?
 */
#ifndef TFD_IR_BASE_DIAG_H
#define TFD_IR_BASE_DIAG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "ir/base/arena.h"
#include "ir/base/str.h"

/* A piece of one line.  line and col count from 1; line 0 is "nowhere".  len is
 * in bytes; a place that spans several lines ends with the first one. */
typedef struct Loc {
    uint32_t line;
    uint32_t col;
    uint16_t len;
    uint16_t file; /* index in the Diag's table of sources */
} Loc;

#define NO_LOC ((Loc){0, 0, 0, 0})

/* Whether part is a piece of all, on one line. */
static inline bool
loc_is_within(Loc part, Loc all)
{
    return part.file == all.file && part.line == all.line &&
           part.col >= all.col && part.col + part.len <= all.col + all.len;
}

static inline bool
loc_is_same(Loc a, Loc b)
{
    return a.file == b.file && a.line == b.line && a.col == b.col;
}

typedef struct Diag Diag;

/* Messages collect in a until diag_print. */
Diag *diag_new(Arena *a);
/* One without messages, with the sources that d has now: for messages that are
 * shown elsewhere.  d must outlive it. */
Diag *diag_beside(Arena *a, const Diag *d);

/* Registers a source and gives its file index.  name is what the program calls
 * it, and what messages show.  text may be NULL (IR read without its source):
 * then no line is shown.  The text must outlive d.  At most 65,535 sources. */
uint16_t diag_add_source(Diag *d, const char *name, const char *text,
                         size_t len);
/* Sets the path by which a source was opened: messages show it, so that their
 * reader finds the file.  Its name stays: a plan does not depend on how a path
 * is spelled (D14). */
void diag_set_path(Diag *d, uint16_t file, const char *path);
/* Sets the text of a source that was registered without one. */
void diag_set_text(Diag *d, uint16_t file, const char *text, size_t len);
/* Says that the source is part of the compiler: a program's author is shown the
 * lines that call it. */
void diag_set_library(Diag *d, uint16_t file);
bool diag_is_library(const Diag *d, uint16_t file);
int diag_num_sources(const Diag *d);
const char *diag_source_name(const Diag *d, uint16_t file);
/* The path, if it was set, else the name. */
const char *diag_source_path(const Diag *d, uint16_t file);
const char *diag_source_text(const Diag *d, uint16_t file, size_t *len);

enum { DIAG_MAX_SHOWN = 20 }; /* errors, and warnings */

/* Of the errors at one place (source, line and column) the first is kept, and
 * of equal warnings at one place; after DIAG_MAX_SHOWN of either kind further
 * ones are only counted.  A very long text is cut.  A note belongs to the
 * message before it and is dropped with it.  Control characters in the text
 * become '?': a message is one line. */
void diag_error(Diag *d, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(Diag *d, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(Diag *d, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A note that shows its line, as errors do: where the repair is to be made,
 * if that is another place than the message's. */
void diag_show(Diag *d, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int diag_num_errors(const Diag *d);

/* Says that the error reported last is about the command line, which determines
 * the exit status; errors in a source that is part of the command line are
 * anyway. */
void diag_blame_usage(Diag *d);
void diag_set_usage(Diag *d, uint16_t file);

/* Reports an error that is not a mistake of the program: the machine failed. */
void diag_blame_machine(Diag *d);
/* The exit status of a program that ends with these messages (StatusKind): 0
 * without errors. */
int diag_exit_status(const Diag *d);

/* A point to return to: messages after it are forgotten.  For work that is
 * tried and done again another way (a loop that turns out to need unrolling).
 */
typedef struct DiagMark {
    int num_messages, num_errors, num_warnings;
} DiagMark;
DiagMark diag_mark(const Diag *d);
void diag_rewind(Diag *d, DiagMark mark);

/* All messages in order of arrival, with source lines. */
void diag_print(const Diag *d, FILE *to);
/* The same as a string in a (tests). */
const char *diag_text(const Diag *d, Arena *a);
/* Adds the line of the first message and all that comes below it. */
void diag_add_below(Str *s, const Diag *d);
/* Adds the line of a place and one that underlines the place, for failures that
 * are reported another way; adds nothing if the source has no text. */
void diag_add_excerpt(Str *s, const Diag *d, Loc loc);

#endif
