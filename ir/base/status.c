/*
 * status.c - failures of the world outside the program
 *
 * A failure lives in an arena of its own, so that it survives the arenas of the
 * work that failed.
 */
#include "ir/base/status.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include "ir/base/arena.h"
#include "ir/base/message.h"
#include "ir/base/temporary.h"

enum { MAX_FATAL = 4096 };

typedef struct Note {
    struct Note *next;
    const char *text;
} Note;

struct StatusRep {
    Arena *arena;
    StatusKind kind;
    const char *message;
    const char *lines; /* "": none */
    Note *first, **last;
};

Status
status_new(StatusKind kind, const char *format, ...)
{
    Arena *a = arena_new(NULL, "status");
    Status st = NEW(a, struct StatusRep);
    va_list args;
    va_start(args, format);
    st->message = message_vprintf(a, format, args);
    va_end(args);
    message_shown(st->message);
    st->arena = a;
    st->lines = "";
    st->kind = kind;
    st->last = &st->first;
    return st;
}

Status
status_show(Status st, const char *lines)
{
    assert(st);
    st->lines = arena_strdup(st->arena, lines);
    return st;
}

Status
status_note(Status st, const char *format, ...)
{
    if (!st)
        return OK;
    Note *note = NEW(st->arena, Note);
    va_list args;
    va_start(args, format);
    note->text = arena_vprintf(st->arena, format, args);
    va_end(args);
    *st->last = note;
    st->last = &note->next;
    return st;
}

StatusKind
status_kind(Status st)
{
    assert(st);
    return st->kind;
}

const char *
status_message(Status st)
{
    assert(st);
    return st->message;
}

const char *
status_lines(Status st)
{
    assert(st);
    return st->lines;
}

int
status_exit_code(Status st)
{
    if (!st)
        return 0;
    return st->kind == STATUS_STOPPED ? 130 : (int)st->kind;
}

int
status_report(Status st, const char *program, FILE *to)
{
    if (!st)
        return 0;
    bool stopped = st->kind == STATUS_STOPPED;
    fprintf(to, "%s: %s%s\n%s", program, stopped ? "" : "error: ", st->message,
            st->lines);
    for (const Note *n = st->first; n; n = n->next)
        fprintf(to, "%s: note: while %s\n", program, n->text);
    return status_exit_code(st);
}

void
status_free(Status st)
{
    if (st)
        arena_release(st->arena);
}

/* One thread ends the process, with one message; others that try to wait for
 * it.  A failure while reporting ends the process at once. */
static void
be_the_last(StatusKind kind)
{
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    static _Thread_local bool is_mine;
    if (is_mine)
        _Exit((int)kind);
    while (atomic_flag_test_and_set(&ending))
        pause();
    is_mine = true;
}

/* Not through a stream: another thread that is ending may have locked it. */
static void
write_error(const char *text)
{
    char line[MAX_FATAL + 256];
    int n = snprintf(line, sizeof line, "%.200s: error: %s\n",
                     program_invocation_short_name, text);
    for (int done = 0; done < n;) {
        ssize_t put = write(STDERR_FILENO, line + done, (size_t)(n - done));
        if (put <= 0 && errno != EINTR)
            return;
        done += put > 0 ? (int)put : 0;
    }
}

void
fatal_error(StatusKind kind, const char *format, ...)
{
    char text[MAX_FATAL];
    be_the_last(kind);
    temporary_remove_all();
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    message_said(format, text);
    message_shown(text);
    write_error(text);
    if (ftrylockfile(stdout) == 0)
        fflush_unlocked(stdout);
    _Exit((int)kind);
}

void
fatal_bug(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr,
            "%s: internal error at %s:%d: ", program_invocation_short_name,
            file, line);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}
