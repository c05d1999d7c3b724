/*
 * memory.h - ending a program that gets no memory
 *
 * The program cannot continue: unwinding needs memory, too.  In the programs
 * themselves malloc.c ensures this for libraries as well.
 */
#ifndef TFD_IR_BASE_MEMORY_H
#define TFD_IR_BASE_MEMORY_H

#include <stddef.h>

/* No machine has more: a larger size is an error, not a request. */
#define MEMORY_MAX ((size_t)1 << 40)

/* Sets the purpose of the calling thread's next allocations ("LLVM, which
 * compiles k_12ab"), for the message.  The text is not copied.  NULL: nothing
 * in particular.  Returns the previous purpose. */
const char *memory_purpose(const char *what);

/* Ends the program because n bytes for the thread's purpose are not available:
 * exit 3 with a message that says so, and how much memory the process has.
 * Allocates nothing; any thread. */
_Noreturn void memory_exhausted(size_t n);

/* Checks the length that a printf returned.  It fails when it gets no memory,
 * which ends the program as above: no text is lost silently. */
size_t formatted_length(int returned);

#endif
