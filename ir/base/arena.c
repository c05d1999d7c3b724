/*
 * arena.c - memory that is freed all at once
 *
 * An arena cuts its allocations from chunks that double in size, so that a
 * small one costs little and a large one asks rarely.  An allocation that would
 * waste a quarter of a chunk gets a chunk of its own.
 *
 * Under AddressSanitizer every allocation has a chunk of its own, of exactly
 * its size: then an overflow within an arena is found like any other.
 */
#include "ir/base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/fail.h"
#include "ir/base/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#define EXACT_CHUNKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EXACT_CHUNKS 1
#endif
#endif
#ifndef EXACT_CHUNKS
#define EXACT_CHUNKS 0
#endif

#ifdef NDEBUG
#define POISON 0
#else
#define POISON 1
#endif

enum { ALIGN = 16, FIRST_CHUNK = 4 << 10, LAST_CHUNK = 1 << 20 };

typedef struct Chunk {
    struct Chunk *next;
    size_t size; /* of the bytes after the header */
} Chunk;

_Static_assert(sizeof(Chunk) % ALIGN == 0, "data after a header is aligned");

typedef struct Release {
    struct Release *older;
    void (*release)(void *);
    void *object;
} Release;

struct Arena {
    Arena *parent;
    Arena *child;         /* the newest */
    Arena *newer, *older; /* siblings */
    const char *name;
    Chunk *chunks;
    char *at, *end; /* the free part of the current chunk */
    size_t chunk_size;
    size_t bytes;
    Release *releases; /* the newest */
};

static _Noreturn void
out_of_memory(const char *name, size_t n)
{
    memory_purpose(name);
    memory_exhausted(n);
}

static void *
zeroed(size_t n, const char *name)
{
    void *p = NULL;
    const char *before = memory_purpose(name);
    if (n <= MEMORY_MAX && !fail_here(FAIL_ALLOC))
        p = calloc(1, n);
    if (!p)
        memory_exhausted(n);
    memory_purpose(before);
    return p;
}

Arena *
arena_new(Arena *parent, const char *name)
{
    Arena *a = zeroed(sizeof *a, name);
    a->name = name;
    a->chunk_size = FIRST_CHUNK;
    a->parent = parent;
    if (parent) {
        a->older = parent->child;
        if (a->older)
            a->older->newer = a;
        parent->child = a;
    }
    return a;
}

/* Only children have siblings; the parent points to its newest child. */
static void
leave_parent(Arena *a)
{
    assert(a->parent ? a->newer || a->parent->child == a
                     : !a->newer && !a->older);
    if (a->newer)
        a->newer->older = a->older;
    else if (a->parent)
        a->parent->child = a->older;
    if (a->older)
        a->older->newer = a->newer;
}

/* Readers of released memory must fail visibly.  The barrier keeps the compiler
 * from removing writes before free.  What the C library unmaps at once has no
 * readers, and pages that nobody touched stay so. */
static void
poison(Chunk *c)
{
    enum { UNMAPPED = 64 << 20 };
    if (c->size >= UNMAPPED)
        return;
    memset(c + 1, 0xdd, c->size);
    __asm__ volatile("" : : "r"(c) : "memory");
}

static void
free_chunks(Chunk *c)
{
    while (c) {
        Chunk *next = c->next;
        if (POISON)
            poison(c);
        free(c);
        c = next;
    }
}

void
arena_release(Arena *a)
{
    if (!a)
        return;
    while (a->child)
        arena_release(a->child);
    for (Release *r = a->releases; r; r = r->older)
        r->release(r->object);
    leave_parent(a);
    free_chunks(a->chunks);
    free(a);
}

static char *
new_chunk(Arena *a, size_t size)
{
    if (size > MEMORY_MAX)
        out_of_memory(a->name, size);
    Chunk *c = zeroed(sizeof *c + size, a->name);
    c->size = size;
    c->next = a->chunks;
    a->chunks = c;
    return (char *)(c + 1);
}

static void
start_chunk(Arena *a)
{
    a->at = new_chunk(a, a->chunk_size);
    a->end = a->at + a->chunk_size;
    if (a->chunk_size < LAST_CHUNK)
        a->chunk_size *= 2;
}

void *
arena_alloc(Arena *a, size_t n)
{
    if (EXACT_CHUNKS || n > a->chunk_size / 4) {
        a->bytes += n;
        return new_chunk(a, n);
    }
    n = n ? (n + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (n > (size_t)(a->end - a->at))
        start_chunk(a);
    assert(n <= (size_t)(a->end - a->at));
    char *p = a->at;
    a->at += n;
    a->bytes += n;
    return p;
}

void *
arena_array(Arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        out_of_memory(a->name, SIZE_MAX);
    return arena_alloc(a, n);
}

void *
arena_copy(Arena *a, const void *from, size_t n)
{
    void *to = arena_alloc(a, n);
    if (n)
        memcpy(to, from, n);
    return to;
}

char *
arena_strndup(Arena *a, const char *s, size_t n)
{
    assert(s || !n);
    char *to = arena_alloc(a, n + 1);
    if (n)
        memcpy(to, s, n);
    return to;
}

char *
arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *
arena_vprintf(Arena *a, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    size_t n = formatted_length(vsnprintf(NULL, 0, format, args));
    char *s = arena_alloc(a, n + 1);
    formatted_length(vsnprintf(s, n + 1, format, again));
    va_end(again);
    return s;
}

char *
arena_printf(Arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *s = arena_vprintf(a, format, args);
    va_end(args);
    return s;
}

void
arena_on_release(Arena *a, void (*release)(void *), void *object)
{
    assert(release);
    Release *r = NEW(a, Release);
    *r = (Release){a->releases, release, object};
    a->releases = r;
}

size_t
arena_bytes(const Arena *a)
{
    size_t n = a->bytes;
    for (const Arena *c = a->child; c; c = c->older)
        n += arena_bytes(c);
    return n;
}
