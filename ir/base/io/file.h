/*
 * file.h - files in, whole or in parts; whole files out; folders, and files
 * that grow
 */
#ifndef TFD_IR_BASE_FILE_H
#define TFD_IR_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/arena.h"
#include "ir/base/io/limit.h"
#include "ir/base/status.h"
#include "ir/base/vec.h"

/* All bytes of a file, in a; a zero byte that len does not count follows. */
Status file_read(Arena *a, const char *path, char **data, size_t *len) MUST_USE;

/* The same of what somebody else gave: a regular file whose size is within a
 * limit, since a pipe may never end; "-" is standard input, as far as that
 * limit. */
Status file_read_limited(Arena *a, const char *path, LimitId limit, char **data,
                         size_t *len) MUST_USE;

/* A file that is read in parts: opened, with its size now.  What is no regular
 * file is refused, since it may not be read again.  Closed by close(). */
Status file_open(const char *path, int *fd, int64_t *size) MUST_USE;
/* The same of one whose size must be within a limit. */
Status file_open_limited(const char *path, LimitId limit, int *fd,
                         int64_t *size) MUST_USE;
/* n bytes from `at` on; *got is less only where the file ends. */
Status file_read_at(int fd, const char *path, int64_t at, void *to, size_t n,
                    size_t *got) MUST_USE;

/* The last part of a path: what stands behind the last slash. */
const char *file_name(const char *path);
/* What stands before it: "." where there is no slash. */
const char *file_directory(Arena *a, const char *path);

/* Whether both names are of one file that is there. */
Status file_is_same(const char *a, const char *b, bool *same) MUST_USE;

/* For programs, before anything else.  That nobody reads what they write
 * (EPIPE), or that a file would be larger than it may (EFBIG), is a failure of
 * the call from then on and no signal that ends them; and no file takes the
 * number of a standard stream that they were started without. */
void file_prepare_process(void);

/* Makes data the content of the file, or leaves the file as it was: the bytes
 * go to a temporary file beside it, reach the disk, and take its name.  What a
 * process that died while it wrote the same file has left there is removed.
 * What is no regular file (/dev/null, a pipe) is written straight; "-" is
 * standard output. */
Status file_write(const char *path, const void *data, size_t len) MUST_USE;

/* The same of n parts, one after the other. */
typedef struct FilePart {
    const void *data;
    size_t len;
} FilePart;
Status file_write_parts(const char *path, const FilePart *parts,
                        size_t n) MUST_USE;

/* Makes a folder and those around it, where they are not there yet. */
Status file_make_folder(const char *path) MUST_USE;

/* The names of what a folder holds, in a, in no order. */
typedef VEC(const char *) FileNames;
Status file_list(Arena *a, const char *folder, FileNames *out) MUST_USE;

/* Removes a file; that there is none is fine. */
Status file_remove(const char *path) MUST_USE;

/* Keeps others from what this process does in a folder, until fd is closed,
 * however the process ends.  Who just died may hold it for a moment yet, so it
 * waits a little.  File systems without locks let everybody in. */
Status file_lock_folder(const char *path, int *fd) MUST_USE;

/* A file that grows: made anew (a path that is taken is an error), and what is
 * added behind its `at` bytes is there for readers at once, all or nothing of
 * it.  Closed by close(); fd is -1 when there is none. */
Status file_create(const char *path, int *fd) MUST_USE;
Status file_add(int fd, const char *path, int64_t at, const void *data,
                size_t len) MUST_USE;
/* One that was there before, to go on behind its first len bytes; what came
 * after them is cut off.  An error if it is not so long. */
Status file_continue(const char *path, int64_t len, int *fd) MUST_USE;
/* What was added is on the disk. */
Status file_sync(int fd, const char *path) MUST_USE;

/* A failure of the system call that set error (an errno): "message: reason".
 * Its kind tells a wrong path from a machine that let us down. */
Status file_error(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;

#endif
