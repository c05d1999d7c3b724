/*
 * malloc.c - malloc never returns NULL in our programs
 *
 * Libraries react differently to a failed allocation: LLVM aborts, qsort takes
 * another algorithm and so another order of equals, printf says less, libzip
 * and jansson return errors that look like those of damaged files.  Some of
 * these would end in a wrong result with exit status 0.  So tfdc and tfd-run
 * replace the C library's functions, for themselves and all libraries they
 * load: a call returns memory, or the program ends with a message and exit
 * status 3.
 *
 * The real function is that of the next object, which may be another allocator
 * that the user preloads.  A request beyond MEMORY_MAX is a wrong size, most
 * likely of a damaged file, and returns NULL as usual: the caller reports it.
 *
 * This file is part of the programs, not of the library: sanitizers and tests
 * have functions of their own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/memory.h"

/* The function `name` of the next library, kept in *known.  Threads that ask at
 * the same time find the same one. */
static void *
next(void **known, const char *name)
{
    void *found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!found) {
        found = dlsym(RTLD_NEXT, name);
        __atomic_store_n(known, found, __ATOMIC_RELAXED);
    }
    return found;
}

/* real is the function.  ISO C has no conversion from a pointer to data to one
 * to a function. */
#define NEXT(name)                                                             \
    static void *known_;                                                       \
    void *found_ = next(&known_, #name);                                       \
    __typeof__(name) *real;                                                    \
    memcpy(&real, &found_, sizeof real)

static void *
checked(void *p, size_t n)
{
    if (!p && n && n <= MEMORY_MAX)
        memory_exhausted(n);
    return p;
}

void *
malloc(size_t n)
{
    NEXT(malloc);
    return checked(real(n), n);
}

void *
calloc(size_t count, size_t size)
{
    NEXT(calloc);
    size_t n;
    bool wrong = __builtin_mul_overflow(count, size, &n);
    return checked(real(count, size), wrong ? 0 : n);
}

/* NULL is a valid result for 0 bytes. */
void *
realloc(void *old, size_t n)
{
    NEXT(realloc);
    return checked(real(old, n), n);
}

void *
aligned_alloc(size_t align, size_t n)
{
    NEXT(aligned_alloc);
    return checked(real(align, n), n);
}

int
posix_memalign(void **out, size_t align, size_t n)
{
    NEXT(posix_memalign);
    int error = real(out, align, n);
    if (error == ENOMEM)
        checked(NULL, n);
    return error;
}
