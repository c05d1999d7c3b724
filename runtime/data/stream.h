/*
 * stream.h - the bytes of a file one after the other, unpacked
 *
 * A stream keeps only the bytes that its reader needs at once and another block
 * in memory, however long the file is.
 */
#ifndef TFD_RUNTIME_DATA_STREAM_H
#define TFD_RUNTIME_DATA_STREAM_H

#include <stdbool.h>
#include <zip.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

typedef struct RtStream RtStream;

/* Whether a file that begins with len bytes is packed by gzip or zlib. */
typedef bool RtIsPacked(const unsigned char *head, size_t len);

/* As file_open; of a folder it says how its files are named. */
Status rt_open_data(const char *path, int *fd, int64_t *size) MUST_USE;

/* The bytes of a file; uncompressed if is_packed (NULL: never) is true for its
 * first 12.  Open as long as a is. */
Status rt_stream_open(Arena *a, const char *path, RtIsPacked *is_packed,
                      RtStream **out) MUST_USE;

/* The bytes of a file in a zip, which must stay open: path is the zip's. */
Status rt_stream_open_member(Arena *a, const char *path, zip_t *zip,
                             zip_uint64_t index, RtStream **out) MUST_USE;

/* At least n bytes from the current position, fewer only at the end: their
 * number in *have, which may be greater.  Valid until the next call. */
Status rt_stream_peek(RtStream *s, size_t n, const char **data,
                      size_t *have) MUST_USE;

/* Skips n of the bytes returned before. */
void rt_stream_skip(RtStream *s, size_t n);

/* How many bytes were skipped. */
int64_t rt_stream_at(const RtStream *s);

/* Moves to the position where rt_stream_at was `at`, or to the end. */
Status rt_stream_seek(RtStream *s, int64_t at) MUST_USE;

/* How many bytes the stream has in all; -1 if they are packed by gzip. */
int64_t rt_stream_size(const RtStream *s);

/* The size on disk of the file when it was opened. */
int64_t rt_stream_file_size(const RtStream *s);

/* Memory that it takes now. */
int64_t rt_stream_footprint(const RtStream *s);

#endif
