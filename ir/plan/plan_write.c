/*
 * plan_write.c - writes entries to a zip, the same bytes every time (D14)
 *
 * Objects may come in any order, since kernels compile in parallel; they are
 * sorted.  Entries are not compressed and have the earliest time of the zip
 * format and plain attributes, so that nothing depends on the machine, the user
 * or the date.
 */
#include "ir/plan/plan.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include "ir/base/fail.h"
#include "ir/base/io/file.h"
#include "ir/base/hash/hash.h"
#include "ir/base/memory.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "ir/plan/abi.h"
#include "ir/plan/plan_impl.h"

enum {
    DOS_DATE = (0 << 9) | (1 << 5) | 1, /* 1980-01-01 */
    DOS_TIME = 0,
    PLAIN_FILE = 0100644 /* mode of the files that unzip makes */
};

typedef struct Entry {
    const char *name;
    const void *bytes;
    size_t size;
} Entry;

typedef VEC(Entry) Entries;

struct PlanWriter {
    Arena *arena;
    Entry ir, calls;
    Entries objects, sources;
};

PlanWriter *
plan_writer_new(Arena *a)
{
    PlanWriter *w = NEW(a, PlanWriter);
    w->arena = a;
    return w;
}

void
plan_set_ir(PlanWriter *w, const char *text, size_t len)
{
    w->ir = (Entry){ENTRY_IR, text, len};
}

void
plan_set_calls(PlanWriter *w, const char *text, size_t len)
{
    w->calls = (Entry){ENTRY_CALLS, text, len};
}

void
plan_add_object(PlanWriter *w, const char *target, const char *name,
                const void *bytes, size_t size)
{
    const TargetInfo *t = target_find(target);
    IrDeviceKind device = t ? t->device : DEVICE_cpu;
    const char *entry = arena_printf(w->arena, DIR_CODE "%s/%s.%s", target,
                                     name, target_formats[device].extension);
    VEC_PUSH(w->arena, w->objects, ((Entry){entry, bytes, size}));
}

/* A name that every archiver accepts and none unpacks outside the current
 * folder: a relative path without ".." stays as it is, of any other only the
 * last part is used. */
static const char *
tame_name(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    bool leads_out = path[0] == '/' || strstr(path, "..");
    char *name = arena_strdup(a, slash && leads_out ? slash + 1 : path);
    for (char *c = name; *c; c++) {
        if (*c < ' ' || *c > '~' || *c == '\\' || *c == '"')
            *c = '_';
    }
    return name;
}

const char *
plan_source_entry(Arena *a, int number, const char *name)
{
    return arena_printf(a, DIR_SOURCE "%d/%s", number, tame_name(a, name));
}

void
plan_add_source(PlanWriter *w, const char *name, const char *text, size_t len)
{
    const char *entry = plan_source_entry(w->arena, w->sources.len, name);
    VEC_PUSH(w->arena, w->sources, ((Entry){entry, text, len}));
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(((const Entry *)a)->name, ((const Entry *)b)->name);
}

/* All entries but the manifest, in their order. */
static Entries
list_entries(const PlanWriter *w, Arena *a)
{
    Entries all = {0};
    VEC_PUSH(a, all, w->ir);
    if (w->calls.name)
        VEC_PUSH(a, all, w->calls);
    int first = all.len;
    for (int i = 0; i < w->objects.len; i++)
        VEC_PUSH(a, all, w->objects.data[i]);
    qsort(all.data + first, (size_t)w->objects.len, sizeof(Entry),
          compare_names);
    for (int i = 0; i < w->sources.len; i++)
        VEC_PUSH(a, all, w->sources.data[i]);
    return all;
}

static Entry
make_manifest(const Entries *all, Arena *a)
{
    Str s = str_new(a);
    str_addf(&s, "{\n  \"" KEY_FORMAT "\": %d,\n", PLAN_FORMAT);
    str_addf(&s, "  \"" KEY_ABI "\": %d,\n", TFD_ABI);
    str_add(&s, "  \"" KEY_COMPILER "\": \"tfdc " TFD_VERSION "\",\n");
    str_add(&s, "  \"" KEY_FILES "\": {");
    for (int i = 0; i < all->len; i++) {
        const Entry *e = &all->data[i];
        str_addf(&s, "%s\n    \"%s\": \"%s\"", i ? "," : "", e->name,
                 hash_text(a, e->bytes, e->size));
    }
    str_add(&s, "\n  }\n}\n");
    return (Entry){ENTRY_MANIFEST, str_text(&s), s.len};
}

static bool
add_entry(zip_t *zip, const Entry *e)
{
    zip_source_t *source = zip_source_buffer(zip, e->bytes, e->size, 0);
    if (!source)
        return false;
    zip_int64_t index = zip_file_add(zip, e->name, source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
        zip_source_free(source);
        return false;
    }
    zip_uint64_t i = (zip_uint64_t)index;
    return zip_set_file_compression(zip, i, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(zip, i, DOS_TIME, DOS_DATE, 0) == 0 &&
           zip_file_set_external_attributes(
               zip, i, 0, ZIP_OPSYS_UNIX, (zip_uint32_t)PLAIN_FILE << 16) == 0;
}

static bool
add_all(zip_t *zip, const Entry *manifest, const Entries *entries)
{
    if (!add_entry(zip, manifest))
        return false;
    for (int i = 0; i < entries->len; i++) {
        if (!add_entry(zip, &entries->data[i]))
            return false;
    }
    return true;
}

static Status
zip_failure(zip_error_t *error)
{
    Status st = status_new(STATUS_MACHINE, "cannot make the plan: %s",
                           zip_error_strerror(error));
    zip_error_fini(error); /* the module's text had it */
    return st;
}

/* Makes the zip in the memory of `out`.  A zip_t takes ownership of its source.
 */
static Status
fill_zip(zip_source_t *out, const Entry *manifest, const Entries *entries)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_keep(out);
    zip_t *zip = NULL;
    if (fail_here(FAIL_IO))
        zip_error_set(&error, ZIP_ER_WRITE, 0);
    else
        zip = zip_open_from_source(out, ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (!zip) {
        zip_source_free(out);
        return zip_failure(&error);
    }
    if (add_all(zip, manifest, entries) && zip_close(zip) == 0)
        return OK;
    Status st = zip_failure(zip_get_error(zip));
    zip_discard(zip);
    return st;
}

static Status
take_bytes(zip_source_t *from, Arena *a, const char **bytes, size_t *len)
{
    zip_stat_t info;
    if (zip_source_stat(from, &info) < 0 || !(info.valid & ZIP_STAT_SIZE) ||
        zip_source_open(from) < 0)
        return zip_failure(zip_source_error(from));
    char *buffer = arena_alloc(a, info.size);
    zip_int64_t got = zip_source_read(from, buffer, info.size);
    zip_source_close(from);
    if (got < 0 || (zip_uint64_t)got != info.size)
        return zip_failure(zip_source_error(from));
    *bytes = buffer;
    *len = info.size;
    return OK;
}

Status
plan_write_bytes(const PlanWriter *w, Arena *a, const char **bytes, size_t *len)
{
    zip_error_t error;
    Entries entries = list_entries(w, a);
    Entry manifest = make_manifest(&entries, a);
    zip_error_init(&error);
    zip_source_t *out = zip_source_buffer_create(NULL, 0, 0, &error);
    if (!out)
        return zip_failure(&error);
    Status st = fill_zip(out, &manifest, &entries);
    if (!st)
        st = take_bytes(out, a, bytes, len);
    zip_source_free(out);
    return st;
}

Status
plan_write(const PlanWriter *w, const char *path)
{
    const char *bytes;
    size_t len;
    Arena *scratch = arena_new(NULL, "writing a plan");
    const char *before = memory_purpose("libzip, writing the plan");
    Status st = plan_write_bytes(w, scratch, &bytes, &len);
    memory_purpose(before);
    if (!st)
        st = file_write(path, bytes, len);
    arena_release(scratch);
    return st;
}
