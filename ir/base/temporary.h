/*
 * temporary.h - files that have no final name yet
 *
 * A file is written under another name and renamed when it is complete.  If the
 * program ends before, perhaps because another thread gets no memory,
 * fatal_error removes the file.
 */
#ifndef TFD_IR_BASE_TEMPORARY_H
#define TFD_IR_BASE_TEMPORARY_H

#include <stdbool.h>
#include <sys/types.h>

/* A temporary file between temporary_open and temporary_close, in the caller's
 * memory, which must last as long.  name is the caller's, too. */
typedef struct Temporary {
    int folder; /* a file descriptor, or AT_FDCWD */
    const char *name;
    struct Temporary *next, **link;
} Temporary;

/* Creates a new file to write to; -1 and errno if it exists or cannot be
 * created.  Any thread. */
int temporary_open(Temporary *t, int folder, const char *name, mode_t mode);

/* Gives it its final name in the same folder; if that is NULL or fails, removes
 * it, and returns false and errno for a failure.  The descriptor stays open. */
bool temporary_close(Temporary *t, const char *final);

/* Removes all of them and prevents new ones.  Allocates nothing. */
void temporary_remove_all(void);

#endif
