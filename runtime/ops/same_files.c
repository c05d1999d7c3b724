/*
 * same_files.c - all processes of a job read the same files
 *
 * Workers divide a list of files, or of their elements, each by itself; where a
 * process has another list, elements are read twice or never.  So lists are
 * compared before the first element is read: names from the data folder, in
 * their order, and sizes.  Usually one hash of each process tells that all are
 * equal; else the first file that differs is found by hashes of ever shorter
 * parts of the lists, which every process finds in the same way.
 */
#include "runtime/ops/same_files.h"

#include <string.h>
#include "ir/base/hash/hash.h"
#include "ir/base/message.h"
#include "runtime/data/data.h"
#include "runtime/exec/run_state.h"

enum { NUM_PARTS = 256 };

typedef VEC(RtDataFile) FileList;

typedef struct Check {
    RtRun *run;
    Arena *arena;
    FileList files; /* of this process */
} Check;

/* ---- what processes tell each other -------------------------------------- */

typedef struct Digest {
    int64_t num_files;
    char hash[HASH_LEN];
} Digest;

/* A file of a process; its name follows. */
typedef struct Entry {
    Loc loc;
    int64_t size; /* -1: it has no such file */
    const char *name;
} Entry;

static void
take_file(void *data, const RtDataFile *f)
{
    Check *c = data;
    VEC_PUSH(c->arena, c->files, *f);
}

/* Of the files begin .. end; the list may end earlier. */
static void
set_hash(const Check *c, int64_t begin, int64_t end, char *out)
{
    Hash *h = hash_new(c->arena);
    for (int64_t i = begin; i < end && i < c->files.len; i++) {
        const RtDataFile *f = &c->files.data[i];
        hash_add(h, &f->loc, sizeof f->loc);
        hash_add(h, f->name, strlen(f->name) + 1);
        hash_add(h, &f->size, sizeof f->size);
    }
    memcpy(out, hash_end(c->arena, h), HASH_LEN);
}

static Status
exchange(const Check *c, const void *own, size_t bytes, RtBytes **all)
{
    return rt_exchange_bytes(&c->run->exchange, "files of datasets", own, bytes,
                             c->arena, all);
}

/* All are equal, or how many files the longest list has. */
static Status
compare_lists(const Check *c, bool *are_equal, int64_t *most)
{
    Digest own = {.num_files = c->files.len};
    RtBytes *all;
    set_hash(c, 0, c->files.len, own.hash);
    TRY(exchange(c, &own, sizeof own, &all));
    *are_equal = true;
    *most = 0;
    for (int r = 0; r < c->run->size; r++) {
        Digest d;
        memcpy(&d, all[r].data, sizeof d);
        *are_equal &= memcmp(&d, all[0].data, sizeof d) == 0;
        *most = d.num_files > *most ? d.num_files : *most;
    }
    return OK;
}

/* Whether some process has another hash of the part than rank 0. */
static bool
part_differs(const Check *c, const RtBytes *all, int part)
{
    size_t at = (size_t)part * HASH_LEN;
    for (int r = 1; r < c->run->size; r++)
        if (memcmp((const char *)all[r].data + at,
                   (const char *)all[0].data + at, HASH_LEN) != 0)
            return true;
    return false;
}

/* Of the files begin .. end, of which one differs: the first such part. */
static Status
narrow(const Check *c, int64_t *begin, int64_t *end)
{
    char hashes[NUM_PARTS * HASH_LEN];
    int64_t first = *begin, num = *end - first;
    int parts = num < NUM_PARTS ? (int)num : NUM_PARTS;
    RtBytes *all;
    for (int i = 0; i < parts; i++)
        set_hash(c, first + num * i / parts, first + num * (i + 1) / parts,
                 hashes + i * HASH_LEN);
    TRY(exchange(c, hashes, (size_t)parts * HASH_LEN, &all));
    int part = 0;
    while (part + 1 < parts && !part_differs(c, all, part))
        part++;
    *begin = first + num * part / parts;
    *end = first + num * (part + 1) / parts;
    return OK;
}

static Status
exchange_entries(const Check *c, int64_t index, Entry *entries)
{
    bool is_here = index < c->files.len;
    const RtDataFile *f = is_here ? &c->files.data[index] : NULL;
    const char *name = f ? f->name : "";
    size_t n = strlen(name) + 1;
    char *own = arena_alloc(c->arena, sizeof(Entry) + n);
    Entry entry = {.size = -1};
    RtBytes *all;
    if (f)
        entry = (Entry){.loc = f->loc, .size = f->size};
    memcpy(own, &entry, sizeof entry);
    memcpy(own + sizeof entry, name, n);
    TRY(exchange(c, own, sizeof entry + n, &all));
    for (int r = 0; r < c->run->size; r++) {
        memcpy(&entries[r], all[r].data, sizeof entry);
        entries[r].name = (const char *)all[r].data + sizeof entry;
    }
    return OK;
}

/* ---- what is said -------------------------------------------------------- */

static const char *
rank_text(const Check *c, int rank)
{
    const RtJob *job = c->run->job;
    return job ? arena_printf(c->arena, "rank %d (%s)", rank,
                              job->peers[rank].host)
               : arena_printf(c->arena, "rank %d", rank);
}

static bool
is_same(const Entry *x, const Entry *y)
{
    return x->size == y->size && memcmp(&x->loc, &y->loc, sizeof x->loc) == 0 &&
           strcmp(x->name, y->name) == 0;
}

static const char *
location(const Check *c, Loc loc)
{
    return arena_printf(c->arena, "%s:%u:%u",
                        diag_source_name(c->run->module->diag, loc.file),
                        loc.line, loc.col);
}

static Status
show(const Check *c, Loc loc, Status st)
{
    Str lines = str_new(c->arena);
    diag_add_excerpt(&lines, c->run->module->diag, loc);
    return status_show(st, str_text(&lines));
}

/* Rank 0 and another one differ in file number `index`. */
static Status
report(const Check *c, int64_t index, const Entry *entries, int other)
{
    const Entry *x = &entries[0], *y = &entries[other];
    const char *first = rank_text(c, 0), *second = rank_text(c, other);
    const char *repair =
        MESSAGE("processes that divide a dataset read the same files: copy "
                "them, or give --data a folder that all reach");
    if (x->size < 0 || y->size < 0) {
        const Entry *has = x->size < 0 ? y : x;
        return show(
            c, has->loc,
            status_new(
                STATUS_INPUT, "%s: \"%s\" is a file of %s, and not of %s; %s",
                location(c, has->loc), has->name, has == x ? first : second,
                has == x ? second : first, message_part(repair)));
    }
    if (strcmp(x->name, y->name) == 0)
        return show(c, x->loc,
                    status_new(STATUS_INPUT,
                               "%s: \"%s\" has %lld bytes for %s, and %lld "
                               "for %s; %s",
                               location(c, x->loc), x->name, (long long)x->size,
                               first, (long long)y->size, second,
                               message_part(repair)));
    return show(c, x->loc,
                status_new(STATUS_INPUT,
                           "%s: file %lld of all is \"%s\" for %s, and \"%s\" "
                           "for %s; %s",
                           location(c, x->loc), (long long)index + 1, x->name,
                           first, y->name, second, message_part(repair)));
}

static Status
check(Check *c)
{
    bool are_equal;
    int64_t begin = 0, end, other = 1;
    for (int i = 0; i < c->run->module->iters.len; i++)
        rt_iter_files(c->run->iterators[i].iter, take_file, c);
    TRY(compare_lists(c, &are_equal, &end));
    if (are_equal)
        return OK;
    while (end - begin > 1)
        TRY(narrow(c, &begin, &end));
    Entry *entries = NEW_ARRAY(c->arena, Entry, (size_t)c->run->size);
    TRY(exchange_entries(c, begin, entries));
    while (other + 1 < c->run->size && is_same(&entries[0], &entries[other]))
        other++;
    return report(c, begin, entries, (int)other);
}

Status
rt_check_same_files(RtRun *run)
{
    if (run->size == 1 || !run->exchange.exchange)
        return OK;
    Check c = {.run = run, .arena = arena_new(NULL, "comparing files")};
    Status st = check(&c);
    arena_release(c.arena);
    return st;
}
