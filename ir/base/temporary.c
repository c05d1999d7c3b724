/*
 * temporary.c - files that have no final name yet
 *
 * A linked list whose nodes are in their writers' memory.  Files are created
 * and renamed under the list's lock, so that none appears while the program is
 * ending.
 */
#include "ir/base/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Temporary *first;

static void
enlist(Temporary *t)
{
    t->next = first;
    t->link = &first;
    if (first)
        first->link = &t->next;
    first = t;
}

static void
leave(Temporary *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
}

int
temporary_open(Temporary *t, int folder, const char *name, mode_t mode)
{
    *t = (Temporary){.folder = folder, .name = name};
    pthread_mutex_lock(&lock);
    int fd = openat(folder, name,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    int error = errno;
    if (fd >= 0)
        enlist(t);
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

bool
temporary_close(Temporary *t, const char *final)
{
    pthread_mutex_lock(&lock);
    bool named = final && renameat(t->folder, t->name, t->folder, final) == 0;
    int error = errno;
    if (!named)
        unlinkat(t->folder, t->name, 0);
    leave(t);
    pthread_mutex_unlock(&lock);
    errno = error;
    return named || !final;
}

/* The lock is kept: a thread that asks for another file waits for the end. */
void
temporary_remove_all(void)
{
    pthread_mutex_lock(&lock);
    for (const Temporary *t = first; t; t = t->next)
        unlinkat(t->folder, t->name, 0);
}
