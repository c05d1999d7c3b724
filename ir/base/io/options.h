/*
 * options.h - command lines from a table
 *
 * A program lists its options as rows; it asks for an option by its number in
 * the list.  --name=value and --name value are the same, as are -D x and -Dx;
 * "--" ends the options; --help (-h) and --version come for free.
 *
 *   enum { OPT_OUT, OPT_TO, NUM_OPTS };
 *   static const OptionRow rows[NUM_OPTS] = {
 *       [OPT_OUT] = {.letter = 'o', .arg = "FILE", .help = "the plan"},
 *       [OPT_TO] = {.name = "to", .arg = "PHASE", .values = phases,
 *                   .help = "stop after a phase and print it"},
 *   };
 *
 * A wrong command line is a status of kind STATUS_USAGE that suggests the
 * nearest option.
 */
#ifndef TFD_IR_BASE_OPTIONS_H
#define TFD_IR_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

typedef struct OptionRow {
    const char *name;          /* without the dashes, or NULL */
    char letter;               /* of the short form, or 0 */
    bool repeatable;           /* else giving it twice is an error */
    const char *arg;           /* what --help calls its value; NULL: a switch */
    bool optional;             /* a value stands after = or is left out: "" */
    const char *const *values; /* all possible values, then NULL; or NULL */
    const char *help;          /* the text of --help, which is wrapped there */
    bool alone;                /* the operand may be missing */
} OptionRow;

typedef struct OptionTable {
    const char *program; /* "tfdc" */
    const char *about;   /* one sentence below the usage line */
    const char *operand; /* "FILE.tfd": there must be exactly one */
    const OptionRow *rows;
    int num_rows;
} OptionTable;

typedef struct Options Options;

/* Reads argv[1] to argv[argc - 1].  The strings of table and argv must outlive
 * the result, which is in a. */
Status options_parse(Arena *a, const OptionTable *table, int argc, char **argv,
                     Options **out) MUST_USE;

/* The page or the version if --help or --version was given, else NULL.  If it
 * is not NULL, the operand may be missing: the program prints the text and
 * ends. */
const char *options_answer(const Options *o);

const char *options_operand(const Options *o);
bool options_given(const Options *o, int row);
/* "--to", or "-o" for an option that has only a letter. */
const char *options_spelling(const Options *o, int row);
/* How often a row was given, and its values in order. */
int options_count(const Options *o, int row);
const char *options_nth(const Options *o, int row, int i);
/* The last value, or `otherwise` if the option was not given. */
const char *options_value(const Options *o, int row, const char *otherwise);

/* The value as a number from min to max; *out stays if it was not given. */
Status options_int(const Options *o, int row, int64_t min, int64_t max,
                   int64_t *out) MUST_USE;
Status options_float(const Options *o, int row, double min, double max,
                     double *out) MUST_USE;

/* Splits the ith NAME=VALUE of a row; the name is copied to a. */
Status options_assignment(const Options *o, Arena *a, int row, int i,
                          const char **name, const char **value) MUST_USE;

/* The position of value in a NULL-terminated list, for values that the caller
 * splits ("ring" of "ring:packs=2"); `what` names the kind of thing. */
Status options_choice(const Options *o, int row, const char *what,
                      const char *const *values, const char *value,
                      int *out) MUST_USE;

#endif
