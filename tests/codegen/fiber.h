/*
 * fiber.h - threads that take turns, each with a stack of its own
 *
 * As swapcontext, but it leaves the signal mask alone: a switch makes no system
 * call on x86-64.  AddressSanitizer is told of each.
 */
#ifndef TFD_TESTS_CODEGEN_FIBER_H
#define TFD_TESTS_CODEGEN_FIBER_H

#include <stddef.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

/* Where it goes on; that of the thread that started others is all zeros before
 * its first switch. */
typedef struct Fiber {
#ifdef __x86_64__
    void *top; /* of the stack, with the registers that a callee saves */
#else
    ucontext_t context;
#endif
    void (*body)(void);
    const void *stack;
    size_t bytes;
    void *fake_stack; /* AddressSanitizer's */
} Fiber;

/* The first switch to f calls body on a stack, which the caller owns and which
 * is aligned to 16 bytes.  body does not return: it ends by fiber_end. */
void fiber_start(Fiber *f, void *stack, size_t bytes, void (*body)(void));

/* Goes on with `to`; returns when somebody switches back to `from`. */
void fiber_switch(Fiber *from, Fiber *to);

/* Goes on with `to`, and never comes back. */
_Noreturn void fiber_end(Fiber *from, Fiber *to);

#endif
