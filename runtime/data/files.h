/*
 * files.h - sources that read files, and the formats that they know
 *
 * A source reads its files one after the other.  A format is two functions on
 * the current file; its state lives as long as the file is open.
 */
#ifndef TFD_RUNTIME_DATA_FILES_H
#define TFD_RUNTIME_DATA_FILES_H

#include "runtime/data/node.h"
#include "runtime/data/stream.h"

typedef struct RtFile {
    const RtNode *node;
    Arena *arena;     /* until the file is closed */
    const char *path; /* where it is */
    const char *name; /* the same as messages have it: from the data folder */
    RtStream *stream; /* its bytes; NULL if the format opens it */
    int64_t size;     /* on disk when it was opened; its opener sets it */
    int64_t record;   /* the number of the next record, from 0 */
    int64_t line;     /* of text: the number of the last line, from 1 */
    void *state;      /* the format's */
} RtFile;

typedef struct RtFileFormat {
    /* Whether the file is compressed, from its first bytes; NULL: it never is.
     */
    RtIsPacked *is_packed;
    /* The format reads the file by streams of its own. */
    bool opens;
    /* Looks at what stands before the records: whether they are of the types
     * that the stage states. */
    Status (*begin)(RtFile *f);
    /* The next record into e; *end instead when there is none. */
    Status (*next)(RtFile *f, RtElement *e, bool *end);
    /* The bytes of the format's streams as in rt_stream_seek: back to where
     * record number f->record is next; NULL: one stream, at a place that was
     * noted. */
    Status (*seek)(RtFile *f);
    /* How many records there are, of one size: seek goes to each of them, or
     * they lie one after the other in the stream and have the bytes of
     * component 0.  NULL: it is known when they are read. */
    int64_t (*count)(const RtFile *f);
} RtFileFormat;

extern const RtFileFormat rt_npy_format, rt_npz_format, rt_idx_format,
    rt_bytes_format, rt_lines_format, rt_csv_format, rt_tfrecord_format;

/* "train.tfd:3:4: "x.npy": ..." of kind STATUS_INPUT. */
Status rt_file_error(const RtFile *f, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;
/* The same with "x.csv", line 7: or record 7, the one that is next. */
Status rt_line_error(const RtFile *f, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;
Status rt_record_error(const RtFile *f, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;

/* That a file has all bytes of elements that its header states (INT64_MAX: more
 * than can be).  of: what of the file has them, "array "x" ", or "". */
Status rt_check_bytes_left(const RtFile *f, const char *of, int64_t have,
                           int64_t all) MUST_USE;

/* The type of a component of the elements, and its name in messages. */
const IrType *rt_file_type(const RtFile *f, int component);
const char *rt_file_type_text(const RtFile *f, int component);
/* What a message adds where a component is f64 and the file has f32: that the
 * compiler may have made it so; else "". */
const char *rt_file_widened(const RtFile *f, int component, bool has_f32);
/* The number of elements of a component, over all its dimensions. */
int64_t rt_file_count(const RtFile *f, int component);
/* The default for a missing value of a component; false: there is none. */
bool rt_file_default(const RtFile *f, int component, Scalar *out);

/* Reads n bytes of stream s, a record or part of one, to `to`; an error when it
 * has fewer. */
Status rt_file_take(const RtFile *f, RtStream *s, void *to, size_t n) MUST_USE;
/* After the last record: the checksum at the end of compressed bytes is checked
 * when the stream is read on. */
Status rt_file_finish(RtStream *s) MUST_USE;

/* Reads the features that the stage of f names from the len bytes of a
 * tf.train.Example into e.  seen has one word for each component. */
Status rt_example_read(const RtFile *f, const char *bytes, size_t len,
                       bool *seen, RtElement *e) MUST_USE;

/* Whether a file begins as gzip's do. */
bool rt_is_gzip(const unsigned char *head, size_t len);

/* A bool is 0 or 1 in compiled code; other programs may write other bytes. */
void rt_normalise_bools(void *elements, int64_t n);

#endif
