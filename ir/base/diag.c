/*
 * diag.c - messages about places in sources
 *
 * Messages are kept as text with their place and laid out only when they are
 * printed.  A message beyond the limit, or at a place that has one already, is
 * never stored; `dropping` tells its notes to go, too.
 */
#include "ir/base/diag.h"

#include <assert.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"

typedef enum Kind { ERROR, WARNING, NOTE, NUM_KINDS } Kind;

static const char *const kind_names[NUM_KINDS] = {"error", "warning", "note"};

enum {
    MAX_TEXT = 4000,   /* bytes of a message */
    MAX_WIDTH = 100,   /* bytes of a source line that are shown */
    LEFT_OF_PLACE = 50 /* of these, before the place, if the line is longer */
};

typedef struct Source {
    const char *name, *path;
    const char *text; /* or NULL */
    size_t len;
    bool is_usage; /* it was given on the command line */
    bool is_library;
} Source;

typedef struct Message {
    Kind kind;
    Loc loc;
    const char *text;
    bool is_shown; /* with its line */
} Message;

struct Diag {
    Arena *arena;
    VEC(Source) sources;
    VEC(Message) messages;
    int count[NUM_KINDS]; /* with those dropped as too many */
    bool dropping;        /* the last error or warning was not kept */
    bool by_machine;      /* some error is not a mistake of the program */
    bool by_usage;        /* some error is about the command line */
};

Diag *
diag_new(Arena *a)
{
    Diag *d = NEW(a, Diag);
    d->arena = a;
    return d;
}

Diag *
diag_beside(Arena *a, const Diag *d)
{
    Diag *beside = diag_new(a);
    for (int i = 0; i < d->sources.len; i++)
        VEC_PUSH(a, beside->sources, d->sources.data[i]);
    return beside;
}

uint16_t
diag_add_source(Diag *d, const char *name, const char *text, size_t len)
{
    if (d->sources.len == UINT16_MAX)
        UNREACHABLE("more than %d sources", UINT16_MAX);
    const char *kept = arena_strdup(d->arena, name);
    Source s = {kept, kept, text, len, false, false};
    VEC_PUSH(d->arena, d->sources, s);
    return (uint16_t)(d->sources.len - 1);
}

void
diag_set_path(Diag *d, uint16_t file, const char *path)
{
    assert(file < d->sources.len);
    d->sources.data[file].path = arena_strdup(d->arena, path);
}

void
diag_set_library(Diag *d, uint16_t file)
{
    assert(file < d->sources.len);
    d->sources.data[file].is_library = true;
}

bool
diag_is_library(const Diag *d, uint16_t file)
{
    return file < d->sources.len && d->sources.data[file].is_library;
}

void
diag_set_text(Diag *d, uint16_t file, const char *text, size_t len)
{
    assert(file < d->sources.len);
    d->sources.data[file].text = text;
    d->sources.data[file].len = len;
}

int
diag_num_sources(const Diag *d)
{
    return d->sources.len;
}

const char *
diag_source_name(const Diag *d, uint16_t file)
{
    assert(file < d->sources.len);
    return d->sources.data[file].name;
}

const char *
diag_source_path(const Diag *d, uint16_t file)
{
    assert(file < d->sources.len);
    return d->sources.data[file].path;
}

const char *
diag_source_text(const Diag *d, uint16_t file, size_t *len)
{
    assert(file < d->sources.len);
    *len = d->sources.data[file].len;
    return d->sources.data[file].text;
}

static bool
same_place(Loc a, Loc b)
{
    return a.file == b.file && a.line == b.line && a.col == b.col;
}

/* Whether an error at a place follows another at the same place: it is most
 * often a consequence of the first.  A missing position (line 0) does not
 * count. */
static bool
is_repeated(const Diag *d, Kind kind, Loc loc, const char *text)
{
    for (int i = 0; i < d->messages.len; i++) {
        const Message *m = &d->messages.data[i];
        if (m->kind != kind || !same_place(m->loc, loc))
            continue;
        if ((kind == ERROR && loc.line) || strcmp(m->text, text) == 0)
            return true;
    }
    return false;
}

static bool
is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Whether a byte continues a character of UTF-8. */
static bool
is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Puts the text on one line, and cuts it to a length that people read, between
 * two characters. */
static const char *
one_line(char *text)
{
    size_t cut = MAX_TEXT;
    if (strlen(text) > MAX_TEXT + strlen("...")) {
        while (cut > 0 && is_continuation(text[cut]))
            cut--;
        strcpy(text + cut, "...");
    }
    for (char *p = text; *p; p++)
        if (is_control(*p))
            *p = '?';
    return text;
}

static void
keep(Diag *d, Kind kind, Loc loc, const char *text)
{
    Message m = {kind, loc, text, kind != NOTE};
    VEC_PUSH(d->arena, d->messages, m);
}

static void
report(Diag *d, Kind kind, Loc loc, const char *format, va_list args)
{
    const char *text = one_line(message_vprintf(d->arena, format, args));
    d->dropping = true;
    if (is_repeated(d, kind, loc, text))
        return;
    if (d->count[kind]++ >= DIAG_MAX_SHOWN)
        return;
    d->dropping = false;
    keep(d, kind, loc, text);
}

void
diag_error(Diag *d, Loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(d, ERROR, loc, format, args);
    va_end(args);
}

void
diag_warning(Diag *d, Loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(d, WARNING, loc, format, args);
    va_end(args);
}

void
diag_note(Diag *d, Loc loc, const char *format, ...)
{
    if (d->dropping)
        return;
    va_list args;
    va_start(args, format);
    keep(d, NOTE, loc, one_line(arena_vprintf(d->arena, format, args)));
    va_end(args);
}

void
diag_show(Diag *d, Loc loc, const char *format, ...)
{
    if (d->dropping)
        return;
    va_list args;
    va_start(args, format);
    keep(d, NOTE, loc, one_line(arena_vprintf(d->arena, format, args)));
    VEC_LAST(d->messages).is_shown = true;
    va_end(args);
}

int
diag_num_errors(const Diag *d)
{
    return d->count[ERROR];
}

void
diag_blame_machine(Diag *d)
{
    d->by_machine = true;
}

void
diag_blame_usage(Diag *d)
{
    d->by_usage = true;
}

void
diag_set_usage(Diag *d, uint16_t file)
{
    d->sources.data[file].is_usage = true;
}

static bool
is_about_usage(const Diag *d)
{
    for (int i = 0; i < d->messages.len; i++) {
        const Message *m = &d->messages.data[i];
        if (m->kind == ERROR && m->loc.line &&
            d->sources.data[m->loc.file].is_usage)
            return true;
    }
    return d->by_usage;
}

int
diag_exit_status(const Diag *d)
{
    if (!d->count[ERROR])
        return 0;
    if (d->by_machine)
        return STATUS_MACHINE;
    return (int)(is_about_usage(d) ? STATUS_USAGE : STATUS_INPUT);
}

DiagMark
diag_mark(const Diag *d)
{
    return (DiagMark){d->messages.len, d->count[ERROR], d->count[WARNING]};
}

void
diag_rewind(Diag *d, DiagMark mark)
{
    d->messages.len = mark.num_messages;
    d->count[ERROR] = mark.num_errors;
    d->count[WARNING] = mark.num_warnings;
    d->dropping = false;
}

/* A part of a source line, and the place within it. */
typedef struct Excerpt {
    const char *line;
    size_t len;
    size_t from, to;  /* the part of the line that is shown */
    size_t mark, end; /* the part that is underlined */
} Excerpt;

/* Line number n of text; false if there is none. */
static bool
find_line(const char *text, size_t len, uint32_t n, Excerpt *x)
{
    const char *at = text, *end = text + len;
    for (; n > 1; n--) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            return false;
        at = newline + 1;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    x->line = at;
    x->len = (size_t)((newline ? newline : end) - at);
    if (x->len && at[x->len - 1] == '\r')
        x->len--;
    return true;
}

static size_t
char_start(const Excerpt *x, size_t at)
{
    while (at > 0 && at < x->len && is_continuation(x->line[at]))
        at--;
    return at;
}

static void
choose_window(Excerpt *x)
{
    x->from = 0;
    x->to = x->len;
    if (x->len <= MAX_WIDTH)
        return;
    if (x->mark > LEFT_OF_PLACE)
        x->from = x->mark - LEFT_OF_PLACE;
    if (x->from + MAX_WIDTH > x->len)
        x->from = x->len - MAX_WIDTH;
    x->to = char_start(x, x->from + MAX_WIDTH);
    x->from = char_start(x, x->from);
}

/* The line of a place; the place is cut to the line, and its end to the part
 * that is shown.  A place at the end of the line is just behind its last byte.
 */
static bool
excerpt(const Source *s, Loc loc, Excerpt *x)
{
    if (!s->text || !find_line(s->text, s->len, loc.line, x))
        return false;
    x->mark = loc.col ? loc.col - 1 : 0;
    if (x->mark > x->len)
        x->mark = x->len;
    choose_window(x);
    x->end = x->mark + loc.len;
    if (x->end > x->to)
        x->end = x->to;
    return true;
}

static void
add_source_line(Str *s, const Excerpt *x)
{
    str_add(s, x->from > 0 ? "..." : "");
    for (size_t i = x->from; i < x->to; i++) {
        char c = x->line[i];
        str_addc(s, is_control(c) && c != '\t' ? '?' : c);
    }
    str_add(s, x->to < x->len ? "...\n" : "\n");
}

/* Tabs stay tabs, so that the underline is below the place. */
static void
add_underline(Str *s, const Excerpt *x)
{
    str_add(s, x->from > 0 ? "   " : "");
    for (size_t i = x->from; i < x->mark; i++)
        if (!is_continuation(x->line[i]))
            str_addc(s, x->line[i] == '\t' ? '\t' : ' ');
    str_addc(s, '^');
    for (size_t i = x->mark + 1; i < x->end; i++)
        if (!is_continuation(x->line[i]))
            str_addc(s, '~');
    str_addc(s, '\n');
}

void
diag_add_excerpt(Str *s, const Diag *d, Loc loc)
{
    Excerpt x;
    if (loc.file >= d->sources.len || !loc.line ||
        !excerpt(&d->sources.data[loc.file], loc, &x))
        return;
    str_addf(s, "%5u | ", loc.line);
    add_source_line(s, &x);
    str_addf(s, "%5s | ", "");
    add_underline(s, &x);
}

static void
add_message(Str *s, const Diag *d, const Message *m)
{
    const Source *source =
        m->loc.file < d->sources.len ? &d->sources.data[m->loc.file] : NULL;
    if (source)
        str_addf(s, "%s:", source->path);
    if (source && m->loc.line)
        str_addf(s, "%u:%u:", m->loc.line, m->loc.col);
    str_addf(s, "%s%s: %s\n", source ? " " : "", kind_names[m->kind], m->text);
    if (m->is_shown)
        diag_add_excerpt(s, d, m->loc);
}

void
diag_add_below(Str *s, const Diag *d)
{
    if (d->messages.len)
        diag_add_excerpt(s, d, d->messages.data[0].loc);
    for (int i = 1; i < d->messages.len; i++)
        add_message(s, d, &d->messages.data[i]);
}

static void
add_rest(Str *s, const Diag *d, Kind kind)
{
    int rest = d->count[kind] - DIAG_MAX_SHOWN;
    if (rest > 0)
        str_addf(s, "%d more %s%s\n", rest, kind_names[kind],
                 rest == 1 ? "" : "s");
}

/* Message i with its notes.  Returns the index of the next. */
static int
add_with_notes(Str *s, const Diag *d, int i)
{
    size_t begin = s->len;
    do
        add_message(s, d, &d->messages.data[i++]);
    while (i < d->messages.len && d->messages.data[i].kind == NOTE);
    message_shown(str_text(s) + begin);
    return i;
}

const char *
diag_text(const Diag *d, Arena *a)
{
    Str s = str_new(a);
    for (int i = 0; i < d->messages.len;)
        i = add_with_notes(&s, d, i);
    add_rest(&s, d, ERROR);
    add_rest(&s, d, WARNING);
    return str_text(&s);
}

void
diag_print(const Diag *d, FILE *to)
{
    Arena *scratch = arena_new(NULL, "printing messages");
    fputs(diag_text(d, scratch), to);
    arena_release(scratch);
}
