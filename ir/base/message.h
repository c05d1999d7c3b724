/*
 * message.h - the sentences that users are told
 *
 * All code that formats a sentence of an error, a warning or a note does it
 * here; a sentence in a table, or one that is returned as a reason, is marked
 * with MESSAGE.  So tests/messages/messages.py finds each of them in the
 * sources, and with TFD_MESSAGES=FILE in the environment, each one that is used
 * is appended to FILE: so each has a test and a row in docs/messages.md.
 */
#ifndef TFD_IR_BASE_MESSAGE_H
#define TFD_IR_BASE_MESSAGE_H

#include <stdarg.h>
#include "ir/base/arena.h"

/* Marks a sentence that is formatted elsewhere. */
#define MESSAGE(text) text

/* A formatted sentence in a.  If the format is "%s", its argument is the
 * sentence. */
char *message_printf(Arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *message_vprintf(Arena *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* The text itself, a sentence that becomes a part of another. */
const char *message_part(const char *text);

/* For callers without an arena: text is the formatted result.  Allocates
 * nothing; any thread. */
void message_said(const char *format, const char *text);
/* A message as users see it, of several lines. */
void message_shown(const char *text);

#endif
