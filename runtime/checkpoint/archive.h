/*
 * archive.h - the state that a resumed run needs, as bytes
 *
 * Each module with a state has one function that lists its parts in order: the
 * same calls append them to a state that is written, and set them from one that
 * is read.  So writing and reading cannot differ.
 *
 *   rt_archive_i64(ar, &r->at, 0, r->count);
 *   rt_archive_bytes(ar, r->ring, r->ring_bytes);
 *
 * A state that is read may be anything: numbers have their range, counts are
 * bounded by the bytes that are left.  The first invalid part is recorded, and
 * everything read after it is its least value or zeros; so callers need not
 * check before the end, where rt_archive_end reports it.
 */
#ifndef TFD_RUNTIME_CHECKPOINT_ARCHIVE_H
#define TFD_RUNTIME_CHECKPOINT_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

typedef struct RtArchive {
    Arena *arena; /* of messages, and of the bytes that are written */
    bool reads;
    char *data;
    size_t len; /* written so far; to be read in all */
    size_t cap, at;
    const char *wrong; /* the first failure in reading; NULL: none */
} RtArchive;

/* A state to be written, which begins with that capacity and grows as needed,
 * and one to be read from bytes that outlive it. */
RtArchive rt_archive_writer(Arena *a, size_t room);
RtArchive rt_archive_reader(Arena *a, const char *data, size_t len);

/* Begins again in the memory allocated before. */
void rt_archive_clear(RtArchive *ar);

void rt_archive_bytes(RtArchive *ar, void *bytes, size_t n);
/* The place of n bytes of the state, which the caller sets or reads; NULL if the
 * state ends before.  Valid until the next call. */
void *rt_archive_place(RtArchive *ar, size_t n);
void rt_archive_bool(RtArchive *ar, bool *x);
void rt_archive_u32(RtArchive *ar, uint32_t *x);
void rt_archive_u64(RtArchive *ar, uint64_t *x);
/* From least to most. */
void rt_archive_i64(RtArchive *ar, int64_t *x, int64_t least, int64_t most);
/* How far something has come: a number from 0 that the run counts on.  One that
 * is read is at most RT_MOST_POSITION, which leaves room for all that a run can
 * count; one that is written is what it is. */
#define RT_MOST_POSITION (INT64_C(1) << 62)
void rt_archive_position(RtArchive *ar, int64_t *x);
/* A number of things, at most that many, each of which takes at least `each`
 * bytes of the state: so a number that is read is plausible. */
void rt_archive_count(RtArchive *ar, int64_t *n, int64_t most, size_t each);
/* A part whose length is written before it, so that a reader can skip it: between
 * the two calls, which the position that the first returns connects, or none if
 * it is skipped.  One that is read must be as long as it says. */
size_t rt_archive_begin_part(RtArchive *ar);
void rt_archive_end_part(RtArchive *ar, size_t begin);
void rt_archive_skip_part(RtArchive *ar);
/* Any text; one that is read is in the archive's arena. */
void rt_archive_text(RtArchive *ar, const char **text);

/* Records why the state cannot be read, unless an error was recorded before. */
void rt_archive_fail(RtArchive *ar, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The recorded failure, or that bytes are left over. */
Status rt_archive_end(RtArchive *ar) MUST_USE;

#endif
