/*
 * status.h - failures of the world outside the program
 *
 * NULL is success.  Anything else has a kind, a message, and notes added by the
 * callers it passed on its way up; it is printed once, by the caller that
 * decides to stop, and freed by status_free.
 */
#ifndef TFD_IR_BASE_STATUS_H
#define TFD_IR_BASE_STATUS_H

#include <stdio.h>

typedef struct StatusRep *Status;

#define OK ((Status)0)

typedef enum StatusKind {
    STATUS_INPUT = 1,   /* program, plan, data or a failed assert: exit 1 */
    STATUS_USAGE = 2,   /* command line: exit 2 */
    STATUS_MACHINE = 3, /* device lost, disk full, out of memory: exit 3 */
    STATUS_STOPPED = 4  /* the user interrupted: exit 130 */
} StatusKind;

#define MUST_USE __attribute__((warn_unused_result))

Status status_new(StatusKind kind, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;
/* Adds "while ..." to a failure; OK stays OK. */
Status status_note(Status st, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;
/* Sets whole lines that are shown below the message: the source line it is
 * about. */
Status status_show(Status st, const char *lines) MUST_USE;
StatusKind status_kind(Status st);
const char *status_message(Status st); /* without notes */
const char *status_lines(Status st);   /* of status_show; "": none */
/* The exit status of a program that ends with it: 0 for OK. */
int status_exit_code(Status st);
/* "tfd-run: error: message" and its notes.  Returns the exit status. */
int status_report(Status st, const char *program, FILE *to);
void status_free(Status st);

/* Returns a failure to the caller. */
#define TRY(call)                                                              \
    do {                                                                       \
        Status try_status_ = (call);                                           \
        if (try_status_)                                                       \
            return try_status_;                                                \
    } while (0)

/* Ends the process where it cannot continue: "program: error: text".  Allocates
 * nothing.  Temporary files are removed.  Streams of other threads may be in
 * any state, so only the results so far are flushed. */
_Noreturn void fatal_error(StatusKind kind, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A violated invariant of the program itself: prints and aborts. */
#define UNREACHABLE(...) fatal_bug(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void fatal_bug(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
