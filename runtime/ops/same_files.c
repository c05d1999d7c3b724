/*
 * same_files.c - all processes of a job read the same files
 *
 * Workers divide a list of files, or of their elements, each by itself; where a
 * process has another list, elements are read twice or never.  The same is true
 * of processes that share a worker with files of its own.  So lists are
 * compared before the first element is read: names from the data folder, in
 * their order, and sizes.  List 0 has the files that all workers divide, and
 * list w + 1 those of worker w alone, of the processes that have it.  Usually
 * one hash of each list tells that all are equal; else the first file that
 * differs is found by hashes of ever shorter parts, which every process finds
 * in the same way.
 */
#include "runtime/ops/same_files.h"

#include <limits.h>
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
    int num_lists;
    FileList *lists; /* of this process */
    bool *has;       /* whether it has the list */

    /* The list that differs: */
    int list, first;  /* and the first rank that has it */
    bool *takes_part; /* the ranks that do */
} Check;

/* ---- what processes tell each other -------------------------------------- */

/* Of a list. */
typedef struct Digest {
    int64_t num_files; /* -1: the process does not have it */
    char hash[HASH_LEN];
} Digest;

/* A file of a process, as it travels; its name follows and ends with a 0. */
typedef struct EntryHead {
    Loc loc;
    int64_t size; /* -1: it has no such file */
} EntryHead;

typedef struct Entry {
    Loc loc;
    int64_t size;
    const char *name;
} Entry;

typedef struct Taker {
    Check *check;
    FileList *to;
} Taker;

static void
take_file(void *data, const RtDataFile *f)
{
    Taker *t = data;
    VEC_PUSH(t->check->arena, *t->to, *f);
}

static void
take_files(Check *c, const RtIter *it, int worker, int list)
{
    Taker t = {c, &c->lists[list]};
    rt_iter_files(it, worker, take_file, &t);
}

static void
make_lists(Check *c)
{
    const RtRun *run = c->run;
    int num_workers = run->module->num_workers;
    int own = run->first_local / (run->num_replicas / num_workers);
    c->num_lists = 1 + num_workers;
    c->lists = NEW_ARRAY(c->arena, FileList, (size_t)c->num_lists);
    c->has = NEW_ARRAY(c->arena, bool, (size_t)c->num_lists);
    c->has[0] = true;
    for (int i = 0; i < run->module->iters.len; i++) {
        const RtIter *it = run->iterators[i].iter;
        if (!rt_iter_has_own_files(it))
            take_files(c, it, own, 0);
        for (int w = 0; rt_iter_has_own_files(it) && w < num_workers; w++)
            if (rt_iter_has_worker(it, w)) {
                c->has[1 + w] = true;
                take_files(c, it, w, 1 + w);
            }
    }
}

/* Of files begin .. end of a list, which may end earlier. */
static void
set_hash(const Check *c, int list, int64_t begin, int64_t end, char *out)
{
    const FileList *files = &c->lists[list];
    Hash *h = hash_new(c->arena);
    for (int64_t i = begin; i < end && i < files->len; i++) {
        const RtDataFile *f = &files->data[i];
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

static Status
no_list(int rank)
{
    return status_new(STATUS_INPUT, "rank %d has sent what is no list of files",
                      rank);
}

/* Of parts that are as long as this process's. */
static Status
exchange_equal(const Check *c, const void *own, size_t bytes, RtBytes **all)
{
    TRY(exchange(c, own, bytes, all));
    for (int r = 0; r < c->run->size; r++)
        if ((*all)[r].len != bytes)
            return no_list(r);
    return OK;
}

static Digest
digest_in(const RtBytes *all, int rank, int list)
{
    Digest d;
    memcpy(&d, (const char *)all[rank].data + (size_t)list * sizeof d,
           sizeof d);
    return d;
}

/* Whether those that have it have another list than the first of them; *most:
 * the files of the longest one. */
static bool
list_differs(Check *c, const RtBytes *all, int list, int64_t *most)
{
    bool differs = false;
    Digest first = {.num_files = -1};
    *most = 0;
    for (int r = 0; r < c->run->size; r++) {
        Digest d = digest_in(all, r, list);
        c->takes_part[r] = d.num_files >= 0;
        if (first.num_files < 0) {
            first = d;
            c->first = r;
        }
        differs |= c->takes_part[r] && memcmp(&d, &first, sizeof d) != 0;
        *most = d.num_files > *most ? d.num_files : *most;
    }
    return differs;
}

static Status
check_digests(const Check *c, const RtBytes *all)
{
    for (int r = 0; r < c->run->size; r++)
        for (int i = 0; i < c->num_lists; i++) {
            Digest d = digest_in(all, r, i);
            if (d.num_files < -1 || d.num_files > INT_MAX)
                return no_list(r);
        }
    return OK;
}

/* The first list that differs, or none. */
static Status
compare_lists(Check *c, bool *are_equal, int64_t *most)
{
    Digest *own = NEW_ARRAY(c->arena, Digest, (size_t)c->num_lists);
    RtBytes *all;
    for (int i = 0; i < c->num_lists; i++) {
        own[i].num_files = c->has[i] ? c->lists[i].len : -1;
        set_hash(c, i, 0, c->lists[i].len, own[i].hash);
    }
    TRY(exchange_equal(c, own, (size_t)c->num_lists * sizeof *own, &all));
    TRY(check_digests(c, all));
    c->takes_part = NEW_ARRAY(c->arena, bool, (size_t)c->run->size);
    c->list = 0;
    while (c->list < c->num_lists && !list_differs(c, all, c->list, most))
        c->list++;
    *are_equal = c->list == c->num_lists;
    return OK;
}

static bool
part_differs(const Check *c, const RtBytes *all, int part)
{
    size_t at = (size_t)part * HASH_LEN;
    for (int r = c->first + 1; r < c->run->size; r++)
        if (c->takes_part[r] &&
            memcmp((const char *)all[r].data + at,
                   (const char *)all[c->first].data + at, HASH_LEN) != 0)
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
        set_hash(c, c->list, first + num * i / parts,
                 first + num * (i + 1) / parts, hashes + i * HASH_LEN);
    TRY(exchange_equal(c, hashes, (size_t)parts * HASH_LEN, &all));
    int part = 0;
    while (part + 1 < parts && !part_differs(c, all, part))
        part++;
    *begin = first + num * part / parts;
    *end = first + num * (part + 1) / parts;
    return OK;
}

static Status
read_entry(const Check *c, int rank, const RtBytes *from, Entry *to)
{
    const char *bytes = from->data;
    EntryHead head;
    if (from->len <= sizeof head || bytes[from->len - 1] != '\0')
        return no_list(rank);
    memcpy(&head, bytes, sizeof head);
    if (head.loc.file >= diag_num_sources(c->run->module->diag))
        return no_list(rank);
    *to = (Entry){head.loc, head.size, bytes + sizeof head};
    return OK;
}

static Status
exchange_entries(const Check *c, int64_t index, Entry *entries)
{
    const FileList *files = &c->lists[c->list];
    const RtDataFile *f = index < files->len ? &files->data[index] : NULL;
    const char *name = f ? f->name : "";
    EntryHead head = {.size = f ? f->size : -1};
    size_t n = strlen(name) + 1;
    char *own = arena_alloc(c->arena, sizeof head + n);
    RtBytes *all;
    if (f)
        head.loc = f->loc;
    memcpy(own, &head, sizeof head);
    memcpy(own + sizeof head, name, n);
    TRY(exchange(c, own, sizeof head + n, &all));
    for (int r = 0; r < c->run->size; r++)
        TRY(read_entry(c, r, &all[r], &entries[r]));
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

/* The first rank that has the list and another one differ in file number
 * `index`. */
static Status
report(const Check *c, int64_t index, const Entry *entries, int other)
{
    const Entry *x = &entries[c->first], *y = &entries[other];
    const char *first = rank_text(c, c->first), *second = rank_text(c, other);
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

static int
other_rank(const Check *c, const Entry *entries)
{
    int other = c->first + 1;
    while (
        other + 1 < c->run->size &&
        (!c->takes_part[other] || is_same(&entries[c->first], &entries[other])))
        other++;
    return other;
}

static Status
check(Check *c)
{
    bool are_equal;
    int64_t begin = 0, end;
    make_lists(c);
    TRY(compare_lists(c, &are_equal, &end));
    if (are_equal)
        return OK;
    while (end - begin > 1)
        TRY(narrow(c, &begin, &end));
    Entry *entries = NEW_ARRAY(c->arena, Entry, (size_t)c->run->size);
    TRY(exchange_entries(c, begin, entries));
    return report(c, begin, entries, other_rank(c, entries));
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
