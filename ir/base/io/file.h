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

/* The same for a file from an untrusted source: it must be regular, since a
 * pipe may never end, and its size within a limit. "-" is standard input, which
 * is read up to that limit. */
Status file_read_limited(Arena *a, const char *path, LimitId limit, char **data,
                         size_t *len) MUST_USE;

/* Opens a file to be read in parts and gives its current size.  Only regular
 * files are accepted, since others may not be readable twice.  Close with
 * close(). */
Status file_open(const char *path, int *fd, int64_t *size) MUST_USE;
/* The same for a file whose size must be within a limit. */
Status file_open_limited(const char *path, LimitId limit, int *fd,
                         int64_t *size) MUST_USE;
/* Reads n bytes from `at` on; *got is less only at the end of the file. */
Status file_read_at(int fd, const char *path, int64_t at, void *to, size_t n,
                    size_t *got) MUST_USE;

/* The last part of a path, after the last slash. */
const char *file_name(const char *path);
/* What stands before it: "." where there is no slash. */
const char *file_directory(Arena *a, const char *path);

/* Whether both names are of the same existing file. */
Status file_is_same(const char *a, const char *b, bool *same) MUST_USE;

/* For programs, before anything else.  Afterwards a broken pipe (EPIPE) and a
 * file beyond the allowed size (EFBIG) are failures of the call and not signals
 * that end the process; and no file gets the number of a standard stream that
 * was closed at the start. */
void file_prepare_process(void);

/* Makes data the content of the file, or leaves the file as it was: the bytes
 * go to a temporary file beside it, reach the disk, and take its name.
 * Temporary files of a process that died while it wrote the same file are
 * removed.  A file that is not regular (/dev/null, a pipe) is written directly;
 * "-" is standard output. */
Status file_write(const char *path, const void *data, size_t len) MUST_USE;

/* Of what printf has written there: that all of it has left, or why not.  For
 * those who print nothing else afterwards. */
Status file_finish_output(void) MUST_USE;

/* For a program that writes much later: that file_write would find a folder
 * where it may do so, and none in the file's place. */
Status file_check_write(const char *path) MUST_USE;

/* file_write for n parts, one after the other. */
typedef struct FilePart {
    const void *data;
    size_t len;
} FilePart;
Status file_write_parts(const char *path, const FilePart *parts,
                        size_t n) MUST_USE;

/* Makes a folder and its missing parents, which a power failure does not take
 * away again. */
Status file_make_folder(const char *path) MUST_USE;

/* The names in a folder, in a, in no particular order. */
typedef VEC(const char *) FileNames;
Status file_list(Arena *a, const char *folder, FileNames *out) MUST_USE;

/* Removes a file; a file that does not exist is no failure. */
Status file_remove(const char *path) MUST_USE;

/* Locks a folder against other processes until fd is closed, however the
 * process ends.  A process that just died may hold the lock for another moment,
 * so this waits briefly.  On file systems without locks it always succeeds. */
Status file_lock_folder(const char *path, int *fd) MUST_USE;

/* A file that grows: creates it (an existing path is an error), with a durable
 * name, and appends to its first `at` bytes; readers see appended data at once,
 * all or nothing of it.  Close with close(); fd is -1 on failure. */
Status file_create(const char *path, int *fd) MUST_USE;
Status file_add(int fd, const char *path, int64_t at, const void *data,
                size_t len) MUST_USE;
/* Opens an existing one to continue after its first len bytes; the rest is cut
 * off.  An error if the file is shorter. */
Status file_continue(const char *path, int64_t len, int *fd) MUST_USE;
/* Waits until appended data is on the disk. */
Status file_sync(int fd, const char *path) MUST_USE;

/* A failure of the system call that set error (an errno): "message: reason".
 * Its kind distinguishes a wrong path from a failure of the machine. */
Status file_error(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;

#endif
