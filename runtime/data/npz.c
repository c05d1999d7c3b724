/*
 * npz.c - rows of the arrays of an .npz file
 *
 * The format is NumPy's: a zip of .npy files, packed by savez_compressed.  Row
 * i of every array that the program names makes element i.
 */
#include <string.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "runtime/data/npy.h"

typedef struct Array {
    RtStream *stream;
    RtNpyHeader header;
} Array;

typedef struct Npz {
    zip_t *zip;
    Array *arrays; /* one a component */
} Npz;

static void
close_zip(void *zip)
{
    zip_discard(zip);
}

/* libzip owns the file from then on. */
static Status
open_zip(RtFile *f, Npz *z)
{
    int fd, error;
    TRY(rt_open_data(f->path, &fd, &f->size));
    z->zip = zip_fdopen(fd, 0, &error);
    if (!z->zip) {
        close(fd);
        return rt_file_error(f, "is no .npz file: it is no zip");
    }
    arena_on_release(f->arena, close_zip, z->zip);
    return OK;
}

/* "a", "b": the arrays of the file. */
static const char *
arrays_in(const RtFile *f, zip_t *zip)
{
    Str s = str_new(f->arena);
    zip_int64_t n = zip_get_num_entries(zip, 0);
    for (zip_int64_t i = 0; i < n && i < 20; i++) {
        const char *name = zip_get_name(zip, (zip_uint64_t)i, 0);
        size_t len = name ? strlen(name) : 0;
        if (len > 4 && strcmp(name + len - 4, ".npy") == 0)
            str_addf(&s, "%s\"%.*s\"", s.len ? ", " : "", (int)(len - 4), name);
    }
    return s.len ? str_text(&s) : "none";
}

static Status
open_array(RtFile *f, int i)
{
    Npz *z = f->state;
    const char *name = f->node->stage->names.data[i];
    const char *entry = arena_printf(f->arena, "%s.npy", name);
    zip_int64_t index = zip_name_locate(z->zip, entry, 0);
    if (index < 0)
        return rt_file_error(f, "has no array \"%s\"; it has %s", name,
                             arrays_in(f, z->zip));
    TRY(rt_stream_open_member(f->arena, f->path, z->zip, (zip_uint64_t)index,
                              &z->arrays[i].stream));
    return rt_npy_begin(f, z->arrays[i].stream, i, name, &z->arrays[i].header);
}

static Status
begin(RtFile *f)
{
    int n = f->node->stage->types.len;
    const IrNames *names = &f->node->stage->names;
    Npz *z = NEW(f->arena, Npz);
    f->state = z;
    z->arrays = NEW_ARRAY(f->arena, Array, (size_t)n);
    TRY(open_zip(f, z));
    for (int i = 0; i < n; i++) {
        TRY(open_array(f, i));
        int64_t rows = z->arrays[i].header.shape[0];
        if (rows != z->arrays[0].header.shape[0])
            return rt_file_error(
                f, "has %lld rows of \"%s\" and %lld of \"%s\"",
                (long long)z->arrays[0].header.shape[0], names->data[0],
                (long long)rows, names->data[i]);
    }
    return OK;
}

static Status
next(RtFile *f, RtElement *e, bool *end)
{
    const Npz *z = f->state;
    *end = f->record >= z->arrays[0].header.shape[0];
    for (int i = 0; i < f->node->stage->types.len; i++) {
        if (*end) {
            TRY(rt_file_finish(z->arrays[i].stream));
            continue;
        }
        size_t bytes = (size_t)f->node->bytes[i];
        TRY(rt_file_take(f, z->arrays[i].stream, e->data[i], bytes));
        if (rt_file_type(f, i)->dtype == DT_bool)
            rt_normalise_bools(e->data[i], (int64_t)bytes);
    }
    return OK;
}

static Status
seek(RtFile *f)
{
    const Npz *z = f->state;
    for (int i = 0; i < f->node->stage->types.len; i++) {
        const Array *a = &z->arrays[i];
        int64_t at;
        if (__builtin_mul_overflow(f->record, f->node->bytes[i], &at) ||
            __builtin_add_overflow(at, (int64_t)a->header.offset, &at))
            at = INT64_MAX; /* without rows */
        TRY(rt_stream_seek(a->stream, at));
    }
    return OK;
}

static int64_t
count(const RtFile *f)
{
    const Npz *z = f->state;
    return z->arrays[0].header.shape[0];
}

const RtFileFormat rt_npz_format = {
    .opens = true, .begin = begin, .next = next, .seek = seek, .count = count};
