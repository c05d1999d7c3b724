/*
 * fiber.c - threads that take turns, each with a stack of its own
 *
 * What a function keeps for its caller is pushed on the stack that is left, and
 * popped from the one where another goes on.  Other machines than x86-64 have
 * swapcontext, which also asks the kernel for the signal mask, twice a switch.
 */
#include "tests/codegen/fiber.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#define ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#else
#define ASAN 0
#endif

/* ---- AddressSanitizer ---------------------------------------------------- */

#if ASAN
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom,
                                    size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save,
                                     const void **bottom_old, size_t *size_old);
#endif

/* Of the last switch. */
static struct {
    Fiber *left, *entered;
} last;

static void
begin_switch(Fiber *from, Fiber *to, bool ends)
{
    last.left = from;
    last.entered = to;
#if ASAN
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake_stack, to->stack,
                                   to->bytes);
#else
    (void)ends;
#endif
}

/* On the stack where a fiber goes on.  Now it is known which one was left. */
static void
end_switch(void *fake_stack)
{
#if ASAN
    __sanitizer_finish_switch_fiber(fake_stack, &last.left->stack,
                                    &last.left->bytes);
#else
    (void)fake_stack;
#endif
}

/* ---- stacks -------------------------------------------------------------- */

#ifdef __x86_64__

void fiber_swap(void **top, void *to);
__asm__(".text\n"
        ".globl fiber_swap\n"
        ".hidden fiber_swap\n"
        ".type fiber_swap, @function\n"
        "fiber_swap:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n"
        "  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n"
        "  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size fiber_swap, . - fiber_swap\n");

static void
swap(Fiber *from, Fiber *to)
{
    fiber_swap(&from->top, to->top);
}

/* Six registers, the address to which fiber_swap returns, and that of a caller:
 * so the stack is aligned as after a call. */
static void
prepare(Fiber *f, char *stack, size_t bytes, void (*first)(void))
{
    enum { REGISTERS = 6, WORDS = REGISTERS + 2 };
    uintptr_t words[WORDS] = {[REGISTERS] = (uintptr_t)first};
    f->top = stack + bytes - sizeof words;
    memcpy(f->top, words, sizeof words);
}

#else

static void
swap(Fiber *from, Fiber *to)
{
    swapcontext(&from->context, &to->context);
}

static void
prepare(Fiber *f, char *stack, size_t bytes, void (*first)(void))
{
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = bytes;
    f->context.uc_link = NULL;
    makecontext(&f->context, first, 0);
}

#endif

static void
first_function(void)
{
    end_switch(NULL);
    last.entered->body();
    abort();
}

/* ---- fibers -------------------------------------------------------------- */

void
fiber_start(Fiber *f, void *stack, size_t bytes, void (*body)(void))
{
    *f = (Fiber){.stack = stack, .bytes = bytes, .body = body};
    prepare(f, stack, bytes, first_function);
}

void
fiber_switch(Fiber *from, Fiber *to)
{
    begin_switch(from, to, false);
    swap(from, to);
    end_switch(from->fake_stack);
}

_Noreturn void
fiber_end(Fiber *from, Fiber *to)
{
    begin_switch(from, to, true);
    swap(from, to);
    abort();
}
