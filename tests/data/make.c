/*
 * make.c - writes files of data in their formats
 */
#include "tests/unit/unit.h"

#include <endian.h>
#include <zip.h>
#include <zlib.h>
#include "ir/base/hash/crc.h"
#include "ir/base/io/file.h"
#include "tests/data/make.h"

void
make_file(const char *path, const void *bytes, size_t len)
{
    Status st = file_write(path, bytes, len);
    if (st)
        fail_msg("%s", status_message(st));
}

void
make_packed(const char *path, int packing, const void *bytes, size_t len)
{
    unsigned char packed[4096];
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)bytes,
                  .avail_in = (unsigned)len,
                  .next_out = packed,
                  .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, packing, 8, 0), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    make_file(path, packed, z.total_out);
}

/* ---- .npy and .npz ------------------------------------------------------- */

Str
make_npy(Arena *a, const MakeArray *array)
{
    Str s = str_new(a);
    const char *dictionary = arena_printf(
        a, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
        array->descr, array->shape);
    str_addn(&s, "\x93NUMPY\1\0", 8);
    str_addc(&s, (char)strlen(dictionary));
    str_addc(&s, 0);
    str_add(&s, dictionary);
    str_addn(&s, array->elements, array->bytes);
    return s;
}

static void
add_array(Arena *a, zip_t *zip, const MakeArray *array, bool packed)
{
    Str s = make_npy(a, array);
    zip_source_t *source = zip_source_buffer(zip, s.data, s.len, 0);
    zip_int64_t index =
        zip_file_add(zip, arena_printf(a, "%s.npy", array->name), source, 0);
    assert_true(index >= 0);
    assert_int_equal(
        zip_set_file_compression(zip, (zip_uint64_t)index,
                                 packed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0),
        0);
}

void
make_npz(const char *path, int n, const MakeArray *arrays, bool packed)
{
    int error;
    Arena *a = arena_new(NULL, "an .npz file");
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &error);
    assert_non_null(zip);
    for (int i = 0; i < n; i++)
        add_array(a, zip, &arrays[i], packed);
    assert_int_equal(zip_close(zip), 0);
    arena_release(a);
}

/* ---- TFRecord ------------------------------------------------------------ */

enum { LIST_BYTES = 1, LIST_FLOATS, LIST_INTS, WIRE_BYTES = 2, WIRE_32 = 5 };

static void
add_varint(Str *s, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        str_addc(s, (char)(x | 0x80));
    str_addc(s, (char)x);
}

/* A field that is a string of bytes. */
static void
add_field(Str *s, int field, const char *bytes, size_t n)
{
    add_varint(s, (uint64_t)field << 3 | WIRE_BYTES);
    add_varint(s, n);
    str_addn(s, bytes, n);
}

static void
add_part(Str *s, int field, const Str *part)
{
    add_field(s, field, str_text(part), part->len);
}

/* An entry of the map: a list of that kind with these bytes in it. */
static void
add_feature(Str *features, const char *name, int kind, const Str *list)
{
    Str feature = str_new(features->arena), entry = str_new(features->arena);
    add_part(&feature, kind, list);
    add_field(&entry, 1, name, strlen(name));
    add_part(&entry, 2, &feature);
    add_part(features, 1, &entry);
}

void
make_bytes(Str *features, const char *name, const char *bytes, size_t n)
{
    Str list = str_new(features->arena);
    add_field(&list, 1, bytes, n);
    add_feature(features, name, LIST_BYTES, &list);
}

void
make_strings(Str *features, const char *name, int n, const char *pairs)
{
    Str list = str_new(features->arena);
    for (int i = 0; i < n; i++)
        add_field(&list, 1, pairs + 2 * i, 2);
    add_feature(features, name, LIST_BYTES, &list);
}

void
make_ints(Str *features, const char *name, int n, const int64_t *x)
{
    Str packed = str_new(features->arena), list = str_new(features->arena);
    for (int i = 0; i < n; i++)
        add_varint(&packed, (uint64_t)x[i]);
    add_part(&list, 1, &packed);
    add_feature(features, name, LIST_INTS, &list);
}

void
make_floats(Str *features, const char *name, int n, const float *x)
{
    Str list = str_new(features->arena);
    for (int i = 0; i < n; i++) {
        add_varint(&list, 1 << 3 | WIRE_32);
        str_addn(&list, (const char *)&x[i], sizeof x[i]);
    }
    add_feature(features, name, LIST_FLOATS, &list);
}

static void
add_u32(Str *s, uint32_t x)
{
    x = htole32(x);
    str_addn(s, (const char *)&x, sizeof x);
}

void
make_record(Str *file, const void *bytes, size_t n)
{
    uint64_t len = htole64((uint64_t)n);
    str_addn(file, (const char *)&len, sizeof len);
    add_u32(file, crc32c_masked(&len, sizeof len));
    str_addn(file, bytes, n);
    add_u32(file, crc32c_masked(bytes, n));
}

void
make_example(Str *file, const Str *features)
{
    Str example = str_new(file->arena);
    add_part(&example, 1, features);
    make_record(file, str_text(&example), example.len);
}
