/*
 * io_inject.h - how a test tells io_inject.c which call fails
 *
 * In a program that has it preloaded,
 *
 *   TFD_IO_FAULT=read:17:EIO   the 17th call of a class fails with an errno
 *   TFD_IO_FAULT=read:17:short or transfers one byte only
 *   TFD_IO_COUNTS=FILE         at the end: the number of calls of each class,
 *                              one line each
 *
 * A close that fails does its work all the same.
 */
#ifndef TFD_TESTS_FAULTS_IO_INJECT_H
#define TFD_TESTS_FAULTS_IO_INJECT_H

/* Classes of calls, and the faults of each. */
#define IO_CLASSES(X)                                                          \
    X(open, "EIO ENOSPC EMFILE EINTR")                                         \
    X(read, "EIO EINTR short")                                                 \
    X(write, "EIO ENOSPC EINTR short")                                         \
    X(fsync, "EIO ENOSPC EINTR")                                               \
    X(rename, "EIO ENOSPC")                                                    \
    X(mmap, "ENOMEM")                                                          \
    X(close, "EIO ENOSPC EINTR")                                               \
    X(stat, "EIO ENOMEM")                                                      \
    X(ftruncate, "EIO EINTR")                                                  \
    X(mkdir, "EIO ENOSPC")

typedef enum IoClass {
#define X(name, faults) IO_##name,
    IO_CLASSES(X)
#undef X
        NUM_IO_CLASSES
} IoClass;

#endif
