/*
 * temporary.h - files that have no final name yet
 *
 * A file is written under another name and renamed when it is whole.  If the
 * program ends in between, for want of memory in another thread perhaps,
 * fatal_error removes it.
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

/* Makes a new file to write to; -1 and errno if it is there or cannot be made.
 * Any thread. */
int temporary_open(Temporary *t, int folder, const char *name, mode_t mode);

/* Gives it its final name in the same folder, or, if that is NULL or cannot
 * be, removes it; false and errno for the latter.  The descriptor stays
 * open. */
bool temporary_close(Temporary *t, const char *final);

/* Removes all there are, and lets no more be made.  Allocates nothing. */
void temporary_remove_all(void);

#endif
