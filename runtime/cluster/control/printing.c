/*
 * printing.c - the lines that threads print which must not wait for a reader
 *
 * Who reads a pipe may pause, as `less` does; then a thread that writes to it
 * waits, and so does each that wants the stream.  A job must not die of that:
 * lines are queued, and a thread prints them that lives while there are any.
 */
#include "runtime/cluster/control/printing.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include "ir/base/arena.h"
#include "ir/base/message.h"
#include "ir/base/thread.h"

enum { MOST_NOTES = 100 }; /* that wait; errors end the job, so they are few */

typedef struct Said {
    Arena *arena;
    RtSay kind;
    const char *line, *lines;
    struct Said *next;
} Said;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all these */
static pthread_cond_t printed = PTHREAD_COND_INITIALIZER;
static Said *first, **last = &first;
static int num_said;
static bool is_printing; /* the thread, or who prints in its place */

/* ---- printing ----------------------------------------------------------- */

/* Results so far come before the line, unless they cannot be written now: main
 * may be in writing them for as long as their reader pauses. */
static void
flush_results(void)
{
    enum { TRIES = 10 };
    static const struct timespec pause = {0, 10 * 1000 * 1000};
    struct pollfd out = {fileno(stdout), POLLOUT, 0};
    for (int i = 0; i < TRIES; i++) {
        if (ftrylockfile(stdout) == 0) {
            if (out.fd < 0 || poll(&out, 1, 0) > 0)
                fflush(stdout);
            funlockfile(stdout);
            return;
        }
        nanosleep(&pause, NULL);
    }
}

static void
print(const Said *s)
{
    flush_results();
    fprintf(stderr, "tfd-run: %s: %s\n%s",
            s->kind == RT_SAY_ERROR ? "error" : "note", s->line, s->lines);
    fflush(stderr);
}

static void *
print_all(void *data)
{
    (void)data;
    pthread_mutex_lock(&lock);
    for (Said *s; (s = first);) {
        first = s->next;
        if (!first)
            last = &first;
        num_said--;
        pthread_mutex_unlock(&lock);
        print(s);
        arena_release(s->arena);
        pthread_mutex_lock(&lock);
    }
    is_printing = false;
    pthread_cond_broadcast(&printed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Signals are for threads that know what to do with them. */
static void
start_to_print(void)
{
    sigset_t all, old;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    Status st = thread_start(&thread, print_all, NULL, "messages");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!st) {
        pthread_detach(thread);
        return;
    }
    status_free(st);
    print_all(NULL);
}

/* ---- from all threads --------------------------------------------------- */

void
rt_server_print(void *data, RtSay kind, const char *line, const char *lines)
{
    (void)data;
    message_shown(line);
    message_shown(lines);
    pthread_mutex_lock(&lock);
    bool fits = kind == RT_SAY_ERROR || num_said < MOST_NOTES;
    bool starts = fits && !is_printing;
    if (fits) {
        Arena *a = arena_new(NULL, "a line to print");
        Said *s = NEW(a, Said);
        *s = (Said){a, kind, arena_strdup(a, line), arena_strdup(a, lines),
                    NULL};
        *last = s;
        last = &s->next;
        num_said++;
        is_printing = true;
    }
    pthread_mutex_unlock(&lock);
    if (starts)
        start_to_print();
}

void
rt_server_printed(void)
{
    pthread_mutex_lock(&lock);
    while (is_printing)
        pthread_cond_wait(&printed, &lock);
    pthread_mutex_unlock(&lock);
}
