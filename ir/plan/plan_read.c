/*
 * plan_read.c - reads a file into its entries
 *
 * Nothing in the file is trusted: libzip checks the directory, and that no name
 * is there twice, and plan_check.c compares the contents of entries with the
 * manifest's hashes.  Entries are read as they are stored, without the zip's
 * own weaker checksum.
 */
#include "ir/plan/plan.h"

#include <stdarg.h>
#include <string.h>
#include <zip.h>
#include "ir/base/io/file.h"
#include "ir/base/hash/hash.h"
#include "ir/base/memory.h"
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "ir/plan/plan_impl.h"

Status
plan_refuse(const Plan *p, const char *format, ...)
{
    Arena *scratch = arena_new(NULL, "refusing a plan");
    va_list args;
    va_start(args, format);
    const char *why = message_vprintf(scratch, format, args);
    va_end(args);
    Status st = status_new(STATUS_INPUT, "cannot run \"%s\": %s", p->path, why);
    arena_release(scratch);
    return st;
}

const PlanEntry *
plan_entry(const PlanEntries *all, const char *name)
{
    for (int i = 0; i < all->len; i++) {
        if (strcmp(all->data[i].name, name) == 0)
            return &all->data[i];
    }
    return NULL;
}

static Status
damaged(const Plan *p, const char *why)
{
    return plan_refuse(p, "the plan is damaged (%s)", message_part(why));
}

/* An entry as the writer makes it; limit is the size of the file. */
static bool
is_ours(const zip_stat_t *info, size_t limit)
{
    zip_uint64_t need = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                        ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    return (info->valid & need) == need && info->comp_method == ZIP_CM_STORE &&
           info->encryption_method == ZIP_EM_NONE &&
           info->comp_size == info->size && info->size <= limit;
}

static bool
read_bytes(zip_t *zip, zip_uint64_t index, char *to, size_t size)
{
    zip_file_t *file = zip_fopen_index(zip, index, ZIP_FL_COMPRESSED);
    if (!file)
        return false;
    zip_int64_t got = zip_fread(file, to, size);
    zip_fclose(file);
    return got >= 0 && (zip_uint64_t)got == size;
}

static Status
read_entry(Arena *a, const Plan *p, zip_t *zip, zip_uint64_t index,
           size_t limit, PlanEntries *all)
{
    zip_stat_t info;
    if (zip_stat_index(zip, index, 0, &info) < 0)
        return damaged(p, zip_strerror(zip));
    if (!is_ours(&info, limit))
        return plan_refuse(p, "it is a zip, but not one that tfdc made");
    char *bytes = arena_alloc(a, info.size + 1);
    if (!read_bytes(zip, index, bytes, info.size))
        return damaged(p, zip_strerror(zip));
    const char *name = arena_strdup(a, info.name);
    VEC_PUSH(a, *all, ((PlanEntry){name, bytes, info.size}));
    return OK;
}

static Status
read_entries(Arena *a, const Plan *p, zip_t *zip, size_t limit,
             PlanEntries *all)
{
    zip_int64_t num = zip_get_num_entries(zip, 0);
    for (zip_int64_t i = 0; i < num; i++)
        TRY(read_entry(a, p, zip, (zip_uint64_t)i, limit, all));
    return OK;
}

static Status
not_a_plan(const Plan *p)
{
    size_t len = strlen(p->path);
    if (len > 4 && strcmp(p->path + len - 4, ".tfd") == 0)
        return plan_refuse(p, "it is a program; tfdc %s makes the plan",
                           p->path);
    return plan_refuse(p, "it is not a plan");
}

static bool
has_zip_magic(const char *bytes, size_t len)
{
    return len >= 4 && memcmp(bytes, "PK\3\4", 4) == 0;
}

static Status
unzip(Arena *a, const Plan *p, const char *bytes, size_t len, PlanEntries *all)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(bytes, len, 0, &error);
    if (!source) {
        Status st = damaged(p, zip_error_strerror(&error));
        zip_error_fini(&error);
        return st;
    }
    int flags = ZIP_RDONLY | ZIP_CHECKCONS;
    zip_t *zip = zip_open_from_source(source, flags, &error);
    if (!zip) {
        Status st = damaged(p, zip_error_strerror(&error));
        zip_source_free(source);
        zip_error_fini(&error);
        return st;
    }
    Status st = read_entries(a, p, zip, len, all);
    zip_discard(zip);
    return st;
}

Status
plan_read_bytes(Arena *a, const char *path, const char *bytes, size_t len,
                Plan **out)
{
    PlanEntries all = {0};
    Plan *p = NEW(a, Plan);
    p->path = arena_strdup(a, path);
    if (!has_zip_magic(bytes, len))
        return not_a_plan(p);
    p->hash = hash_text(a, bytes, len);
    TRY(unzip(a, p, bytes, len, &all));
    TRY(plan_check_manifest(a, &all, p));
    TRY(plan_list_code(a, &all, p));
    TRY(plan_load_module(a, &all, p));
    *out = p;
    return OK;
}

Status
plan_read(Arena *a, const char *path, Plan **out)
{
    char *bytes;
    size_t len;
    Arena *scratch = arena_new(NULL, "reading a plan");
    Status st = file_read_limited(scratch, path, LIMIT_plan, &bytes, &len);
    const char *before = memory_purpose("libzip and jansson, reading the plan");
    if (!st)
        st = plan_read_bytes(a, path, bytes, len, out);
    memory_purpose(before);
    arena_release(scratch);
    return st;
}
