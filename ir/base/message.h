/*
 * message.h - the sentences that users are told
 *
 * Whatever formats a sentence of an error, a warning or a note does it here,
 * and a sentence that waits in a table or is handed up as a reason is marked
 * with MESSAGE.  So tests/messages/messages.py finds each of them in the
 * sources, and TFD_MESSAGES=FILE in the environment appends to FILE which of
 * them were said: none is without a test, and docs/messages.md has all.
 */
#ifndef TFD_IR_BASE_MESSAGE_H
#define TFD_IR_BASE_MESSAGE_H

#include <stdarg.h>
#include "ir/base/arena.h"

/* A sentence that is not written where it is said. */
#define MESSAGE(text) text

/* A formatted sentence in a.  Where the format is "%s", its argument is one. */
char *message_printf(Arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *message_vprintf(Arena *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* The text itself, a sentence that becomes a part of another. */
const char *message_part(const char *text);

/* For those who have no arena: text is what became of the format.  Allocates
 * nothing; any thread. */
void message_said(const char *format, const char *text);
/* A message as users see it, of several lines. */
void message_shown(const char *text);

#endif
