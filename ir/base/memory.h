/*
 * memory.h - the end of a program that gets no memory
 *
 * There is no way back from it: unwinding needs memory, too.  In the programs
 * themselves malloc.c sees to it that this holds for libraries as well.
 */
#ifndef TFD_IR_BASE_MEMORY_H
#define TFD_IR_BASE_MEMORY_H

#include <stddef.h>

/* No machine has more: the rest is a wrong size, not a request. */
#define MEMORY_MAX ((size_t)1 << 40)

/* Says what the calling thread's next allocations are for ("LLVM, which
 * compiles k_12ab"), for the message, until it is said anew.  The text is not
 * copied.  NULL: nothing in particular.  Returns what was said before. */
const char *memory_purpose(const char *what);

/* There are no n bytes for the thread's purpose: exit 3 with a message that
 * says so, and how much the process has.  Allocates nothing; any thread. */
_Noreturn void memory_exhausted(size_t n);

/* The length that a printf returned.  It fails when it gets no memory, which
 * ends the program as above: a text is never silently none. */
size_t formatted_length(int returned);

#endif
