/*
 * str.h - growing strings, interned names, and a map keyed by strings
 */
#ifndef TFD_IR_BASE_STR_H
#define TFD_IR_BASE_STR_H

#include <stdbool.h>
#include <stdint.h>
#include "ir/base/arena.h"

/* A string that grows in an arena; data is always terminated once something
 * was added (str_text gives "" before that). */
typedef struct Str {
    Arena *arena;
    char *data;
    size_t len, cap;
} Str;

Str str_new(Arena *a);
void str_add(Str *s, const char *text);
void str_addn(Str *s, const char *text, size_t n);
void str_addc(Str *s, char c);
void str_addf(Str *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* text as a quoted literal: " and \ are escaped by \, newline, tab and return
 * are \n \t \r, other control bytes are \xHH; the rest (UTF-8) stays. */
void str_add_quoted(Str *s, const char *text, size_t n);
const char *str_text(const Str *s);

/* Bytes of the character of UTF-8 at the start of n > 0 bytes; 0: there is
 * none, as for a zero byte. */
size_t str_char_len(const char *text, size_t n);
/* Control characters (C1, too), but for ends of lines where there are any, and
 * bytes of no character become '?': what others send reaches terminals. */
void str_make_printable(char *text, size_t n, bool has_lines);

/* The shortest decimal text that reads back as the same value: 0.1, 2.0, 1e-5,
 * 1.5e300; always with a '.', an 'e', or one of inf, -inf, nan.  As the text of
 * an f32 when single. */
void str_add_float(Str *s, double x, bool single);

/* Names that are equal are the same pointer. */
typedef struct Intern Intern;
Intern *intern_new(Arena *a);
const char *intern(Intern *in, const char *text);
const char *intern_n(Intern *in, const char *text, size_t n);

/* String -> pointer.  Keys are copied; values are the caller's.  Iteration is
 * in order of insertion. */
typedef struct Map Map;
Map *map_new(Arena *a);
void *map_get(const Map *m, const char *key);       /* NULL: absent */
void map_set(Map *m, const char *key, void *value); /* replaces */
int map_count(const Map *m);
const char *map_key(const Map *m, int i); /* i-th inserted */
void *map_value(const Map *m, int i);

/* The candidate nearest to name by edit distance (case does not count), the
 * first of several, or NULL when none is near enough to suggest. */
const char *nearest_name(const char *name, const char *const *candidates,
                         int n);

#endif
