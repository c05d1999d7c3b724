/*
 * message.c - the sentences that users are told
 *
 * A record of the log is one write to a file opened for appending, so that
 * records of threads and processes are never mixed.
 */
#include "ir/base/message.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RECORD = 8192 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int log_file = -1;

static void
open_log(void)
{
    const char *path = getenv("TFD_MESSAGES");
    if (path)
        log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static bool
is_logged(void)
{
    pthread_once(&once, open_log);
    return log_file >= 0;
}

/* Fields end with ASCII's unit separator, records with its record separator. */
static void
add_record(const char *kind, const char *format, const char *text)
{
    char record[MAX_RECORD];
    int n = snprintf(record, sizeof record - 1, "%s\x1f%s\x1f%.4096s", kind,
                     format, text);
    if (n < 0)
        return;
    size_t len = (size_t)n < sizeof record - 2 ? (size_t)n : sizeof record - 2;
    record[len++] = '\x1e';
    ssize_t written = write(log_file, record, len);
    (void)written; /* the test reports the missing record */
}

void
message_said(const char *format, const char *text)
{
    if (is_logged())
        add_record("said", strcmp(format, "%s") == 0 ? text : format, text);
}

void
message_shown(const char *text)
{
    if (is_logged())
        add_record("shown", "", text);
}

const char *
message_part(const char *text)
{
    if (is_logged())
        add_record("part", text, text);
    return text;
}

char *
message_vprintf(Arena *a, const char *format, va_list args)
{
    char *text = arena_vprintf(a, format, args);
    message_said(format, text);
    return text;
}

char *
message_printf(Arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = message_vprintf(a, format, args);
    va_end(args);
    return text;
}
