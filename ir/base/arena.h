/*
 * arena.h - memory that is freed all at once
 *
 * Arenas form a tree.  Each is named after the work whose lifetime it has;
 * releasing one releases its children.  Nothing inside an arena is freed alone.
 *
 * An arena is used by one thread at a time, and arena_new and arena_release
 * change the parent too: work for another thread gets a root of its own.
 */
#ifndef TFD_IR_BASE_ARENA_H
#define TFD_IR_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

/* A child of parent, or a root if parent is NULL.  name is not copied. */
Arena *arena_new(Arena *parent, const char *name);

/* Frees a, its children, and everything in them: children first, newest first,
 * then the callbacks of arena_on_release, newest first, then the memory.  NULL
 * is allowed. */
void arena_release(Arena *a);

/* n zeroed bytes aligned to 16, valid until a is released.  Never NULL: a
 * machine without memory ends the program with a message and status 3. */
void *arena_alloc(Arena *a, size_t n);

/* As arena_alloc, for count objects of size bytes; checks the product. */
void *arena_array(Arena *a, size_t count, size_t size);

/* A copy of n bytes, and of a string (of n bytes, terminated). */
void *arena_copy(Arena *a, const void *from, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);

/* A formatted string in a. */
char *arena_printf(Arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Calls release(object) when a is released: for files and foreign objects. */
void arena_on_release(Arena *a, void (*release)(void *), void *object);

/* Bytes handed out by a and its children. */
size_t arena_bytes(const Arena *a);

#define NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_ARRAY(arena, T, n) ((T *)arena_array((arena), (n), sizeof(T)))

#endif
