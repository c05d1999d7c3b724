/*
 * checkpoint.c - a folder of files from which a run resumes
 *
 * A file is called step-N.ckpt: a header, then the state.  It is written to a
 * temporary file, synced and renamed; then the folder is synced, and only then
 * are older ones removed.  So whenever the process or the machine dies, the
 * newest complete one exists.
 */
#include "runtime/checkpoint/checkpoint.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/base/hash/hash.h"
#include "ir/base/message.h"

enum {
    FORMAT = 6,
    MAGIC_LEN = 8,
    HEADER_BYTES = MAGIC_LEN + 2 * 4 + 2 * 8 + 3 * HASH_LEN
};

static const char magic[MAGIC_LEN + 1] = "tfd-ckpt";
static const char prefix[] = "step-", suffix[] = ".ckpt";

struct RtCheckpoints {
    Arena *arena;
    const char *folder;
    RtOwner owner;
    int lock;

    pthread_t thread;
    bool is_writing; /* there is a thread to join */
    int64_t step;
    const RtArchive *state;
    RtEvents *events;
    Status written;       /* the result of the last one */
    _Atomic int64_t last; /* complete on the disk; -1: none */
};

/* ---- headers ------------------------------------------------------------ */

typedef struct Header {
    char magic[MAGIC_LEN];
    uint32_t format, num_replicas;
    int64_t step;
    uint64_t len; /* of the state */
    char plan[HASH_LEN], state[HASH_LEN], header[HASH_LEN];
} Header;

/* All fields except the hash of the header itself. */
static void
facts_archive(Header *h, RtArchive *ar)
{
    rt_archive_bytes(ar, h->magic, sizeof h->magic);
    rt_archive_u32(ar, &h->format);
    rt_archive_u32(ar, &h->num_replicas);
    rt_archive_position(ar, &h->step);
    rt_archive_u64(ar, &h->len);
    rt_archive_bytes(ar, h->plan, sizeof h->plan);
    rt_archive_bytes(ar, h->state, sizeof h->state);
}

static void
set_hash(Arena *a, char *to, const void *bytes, size_t n)
{
    memcpy(to, hash_text(a, bytes, n), HASH_LEN);
}

static bool
has_hash(Arena *a, const char *hash, const void *bytes, size_t n)
{
    return !hash_is_checked() ||
           memcmp(hash, hash_text(a, bytes, n), HASH_LEN) == 0;
}

static RtArchive
header_of(Arena *a, const RtCheckpoints *c)
{
    RtArchive ar = rt_archive_writer(a, 0);
    Header h = {.format = FORMAT,
                .num_replicas = c->owner.num_replicas,
                .step = c->step,
                .len = c->state->len};
    memcpy(h.magic, magic, MAGIC_LEN);
    memcpy(h.plan, c->owner.plan, HASH_LEN);
    set_hash(a, h.state, c->state->data, c->state->len);
    facts_archive(&h, &ar);
    set_hash(a, h.header, ar.data, ar.len);
    rt_archive_bytes(&ar, h.header, sizeof h.header);
    return ar;
}

/* ---- reading ------------------------------------------------------------ */

static Status refuse(const char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static Status
refuse(const char *path, const char *format, ...)
{
    Arena *scratch = arena_new(NULL, "refusing a checkpoint");
    va_list args;
    va_start(args, format);
    const char *why = message_vprintf(scratch, format, args);
    va_end(args);
    Status st =
        status_new(STATUS_INPUT, "cannot resume from \"%s\": %s", path, why);
    arena_release(scratch);
    return st;
}

static Status
check_length(const char *path, uint64_t len, uint64_t stated)
{
    if (len == stated)
        return OK;
    return refuse(path, "it is %s: %llu bytes of %llu",
                  len < stated ? "cut short" : "too long",
                  (unsigned long long)len, (unsigned long long)stated);
}

/* Checks a file of that many bytes, of which those of the header are given.
 * The header of another format is unknown after its number. */
static Status
check_header(Arena *a, const char *path, const Header *h, const RtArchive *ar,
             size_t facts, uint64_t size)
{
    if (memcmp(h->magic, magic, MAGIC_LEN) != 0)
        return refuse(path, "it is no checkpoint");
    if (h->format != FORMAT)
        return refuse(path,
                      "it is damaged, or another tfd-run made it (format %u; "
                      "this one knows %d)",
                      h->format, FORMAT);
    if (ar->wrong)
        return refuse(path, "it is cut short: %zu bytes", ar->len);
    if (!has_hash(a, h->header, ar->data, facts))
        return refuse(path, "it is damaged (checksum of its header)");
    return check_length(path, size - ar->len, h->len);
}

/* From the first len bytes of a file of so many bytes. */
static Status
read_header(Arena *a, const char *path, const char *bytes, size_t len,
            uint64_t size, Header *h)
{
    RtArchive ar =
        rt_archive_reader(a, bytes, len < HEADER_BYTES ? len : HEADER_BYTES);
    facts_archive(h, &ar);
    size_t facts = ar.at;
    rt_archive_bytes(&ar, h->header, sizeof h->header);
    return check_header(a, path, h, &ar, facts, size);
}

/* state has as many bytes as the header says. */
static Status
check_state(Arena *a, const char *path, const Header *h, const char *state,
            RtCheckpoint *out)
{
    if (!has_hash(a, h->state, state, (size_t)h->len))
        return refuse(path, "it is damaged (checksum of its state)");
    out->state = state;
    out->len = (size_t)h->len;
    return OK;
}

/* The header of a file. */
static RtCheckpoint
described(Arena *a, const char *path, const Header *h)
{
    return (RtCheckpoint){.path = path,
                          .owner = {.plan = arena_strndup(a, h->plan, HASH_LEN),
                                    .num_replicas = h->num_replicas},
                          .step = h->step};
}

Status
rt_checkpoint_parse(Arena *a, const char *path, const char *bytes, size_t len,
                    RtCheckpoint *out)
{
    Header h;
    TRY(read_header(a, path, bytes, len, len, &h));
    *out = described(a, path, &h);
    return check_state(a, path, &h, bytes + HEADER_BYTES, out);
}

static bool
is_of(const RtCheckpoint *c, const RtOwner *owner)
{
    return c->owner.num_replicas == owner->num_replicas &&
           strcmp(c->owner.plan, owner->plan) == 0;
}

static Status
check_owner(const RtCheckpoint *c, const RtOwner *owner)
{
    if (c->owner.num_replicas != owner->num_replicas)
        return refuse(c->path, "it is of %u replicas, and the plan has %u",
                      c->owner.num_replicas, owner->num_replicas);
    if (strcmp(c->owner.plan, owner->plan) != 0)
        return refuse(c->path,
                      "another plan made it; give that one, or begin anew in "
                      "another folder");
    return OK;
}

/* ---- the folder --------------------------------------------------------- */

static const char ended[] = "ended"; /* a file of no bytes */

/* The N of "step-N.ckpt" in its written form, or -1. */
static int64_t
step_of(const char *name)
{
    char *end, again[64];
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return -1;
    long long step = strtoll(name + strlen(prefix), &end, 10);
    snprintf(again, sizeof again, "%s%lld%s", prefix, step, suffix);
    return strcmp(again, name) == 0 ? step : -1;
}

/* Names of the temporary files that file_write leaves if its process dies. */
static bool
is_leaving(const char *name)
{
    const char *end = strstr(name, ".tmp-");
    return strncmp(name, prefix, strlen(prefix)) == 0 && end &&
           memmem(name, (size_t)(end - name), suffix, strlen(suffix));
}

static const char *
path_of(Arena *a, const RtCheckpoints *c, const char *name)
{
    return arena_printf(a, "%s/%s", c->folder, name);
}

static const char *
path_of_step(Arena *a, const RtCheckpoints *c, int64_t step)
{
    return arena_printf(a, "%s/%s%lld%s", c->folder, prefix, (long long)step,
                        suffix);
}

typedef VEC(int64_t) Steps;

static int
newer_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Lists all checkpoints in the folder, the newest first. */
static Status
list_steps(Arena *a, const RtCheckpoints *c, Steps *out)
{
    FileNames names;
    *out = (Steps){0};
    TRY(file_list(a, c->folder, &names));
    for (int i = 0; i < names.len; i++) {
        int64_t step = step_of(names.data[i]);
        if (step >= 0)
            VEC_PUSH(a, *out, step);
    }
    if (out->len)
        qsort(out->data, (size_t)out->len, sizeof *out->data, newer_first);
    return OK;
}

static Status
remove_leavings(const RtCheckpoints *c)
{
    FileNames names;
    TRY(file_list(c->arena, c->folder, &names));
    for (int i = 0; i < names.len; i++)
        if (is_leaving(names.data[i]))
            TRY(file_remove(path_of(c->arena, c, names.data[i])));
    return OK;
}

static RtCheckpoints *
new_folder(const char *folder, const RtOwner *owner)
{
    Arena *a = arena_new(NULL, "checkpoints");
    RtCheckpoints *c = NEW(a, RtCheckpoints);
    *c = (RtCheckpoints){
        .arena = a, .folder = folder, .owner = *owner, .lock = -1, .last = -1};
    return c;
}

RtCheckpoints *
rt_checkpoints_follow(const char *folder, const RtOwner *owner)
{
    return new_folder(folder, owner);
}

Status
rt_checkpoints_open(const char *folder, const RtOwner *owner,
                    RtCheckpoints **out)
{
    RtCheckpoints *c = new_folder(folder, owner);
    Status st = file_make_folder(folder);
    if (!st)
        st = file_lock_folder(folder, &c->lock);
    if (!st)
        st = remove_leavings(c);
    if (!st)
        st = file_remove(path_of(c->arena, c, ended));
    if (st)
        rt_checkpoints_close(c);
    else
        *out = c;
    return status_note(st, "opening the folder of checkpoints");
}

int64_t
rt_checkpoints_newest_step(const char *folder)
{
    Arena *a = arena_new(NULL, "listing checkpoints");
    FileNames names = {0};
    int64_t newest = 0;
    status_free(file_list(a, folder, &names));
    for (int i = 0; i < names.len; i++) {
        int64_t step = step_of(names.data[i]);
        newest = step > newest ? step : newest;
    }
    arena_release(a);
    return newest;
}

Status
rt_checkpoints_mark_ended(const RtCheckpoints *c)
{
    return file_write(path_of(c->arena, c, ended), "", 0);
}

bool
rt_checkpoints_have_ended(const char *folder)
{
    Arena *a = arena_new(NULL, "listing checkpoints");
    FileNames names = {0};
    bool have = false;
    status_free(file_list(a, folder, &names));
    for (int i = 0; i < names.len; i++)
        have |= strcmp(names.data[i], ended) == 0;
    arena_release(a);
    return have;
}

Status
rt_checkpoints_expect_none(const RtCheckpoints *c)
{
    Steps steps;
    TRY(list_steps(c->arena, c, &steps));
    if (!steps.len || steps.data[0] == 0)
        return OK;
    return status_new(STATUS_INPUT,
                      "\"%s\" has checkpoints of another run; go on with it "
                      "by --resume, or give another folder",
                      c->folder);
}

/* ---- the newest one ----------------------------------------------------- */

/* A state that is too large for any run of this plan is not read.  It may be a
 * little larger than the plan expects, since it has counts that vary. */
static Status
check_expected(const RtCheckpoint *c, const Header *h, const RtOwner *owner)
{
    enum { SPARE = 1 << 20 };
    size_t most = owner->most > (SIZE_MAX - SPARE) / 2
                      ? SIZE_MAX
                      : 2 * owner->most + SPARE;
    if (h->len <= most)
        return OK;
    return refuse(c->path,
                  "it is larger than this plan expects: its state has %llu "
                  "bytes, and none of this plan has more than %zu",
                  (unsigned long long)h->len, most);
}

static Status
read_state(Arena *a, int fd, const Header *h, RtCheckpoint *out)
{
    size_t got, len = (size_t)h->len;
    char *state = arena_alloc(a, len + 1);
    TRY(file_read_at(fd, out->path, HEADER_BYTES, state, len, &got));
    TRY(check_length(out->path, got, len));
    return check_state(a, out->path, h, state, out);
}

/* The state is not read if the checkpoint is another plan's or damaged. */
static Status
read_open(Arena *a, const RtCheckpoints *c, int fd, int64_t size,
          const char *path, RtCheckpoint *out)
{
    Header h;
    size_t got;
    char bytes[HEADER_BYTES];
    TRY(file_read_at(fd, path, 0, bytes, sizeof bytes, &got));
    TRY(read_header(a, path, bytes, got, (uint64_t)size, &h));
    *out = described(a, path, &h);
    if (!is_of(out, &c->owner))
        return OK;
    TRY(check_expected(out, &h, &c->owner));
    return read_state(a, fd, &h, out);
}

static Status
read_step(Arena *a, const RtCheckpoints *c, int64_t step, RtCheckpoint *out)
{
    int fd;
    int64_t size;
    const char *path = path_of_step(a, c, step);
    TRY(file_open_limited(path, LIMIT_checkpoint, &fd, &size));
    Status st = read_open(a, c, fd, size, path, out);
    close(fd);
    return st;
}

/* A run that did nothing has nothing to lose: another one may begin in its
 * place. */
static Status
take(RtCheckpoints *c, const RtCheckpoint *found)
{
    Status st = check_owner(found, &c->owner);
    if (!st)
        atomic_store(&c->last, found->step);
    if (!st || found->step > 0)
        return st;
    status_free(st);
    return OK;
}

Status
rt_checkpoints_newest(RtCheckpoints *c, Arena *a, FILE *notes,
                      RtCheckpoint *out)
{
    Steps steps;
    *out = (RtCheckpoint){.step = 0};
    TRY(list_steps(a, c, &steps));
    for (int i = 0; i < steps.len; i++) {
        Status st = read_step(a, c, steps.data[i], out);
        if (!st)
            return take(c, out);
        if (i == steps.len - 1)
            return st;
        if (notes)
            fprintf(notes, "%s; trying the one before it\n",
                    status_message(st));
        status_free(st);
    }
    return OK;
}

/* ---- writing ------------------------------------------------------------ */

/* A failure to remove an old one is ignored: it is tried again the next time.
 */
static void
prune(Arena *a, const RtCheckpoints *c)
{
    Steps steps;
    Status st = list_steps(a, c, &steps);
    int kept = 0;
    for (int i = 0; !st && i < steps.len; i++) {
        kept += steps.data[i] <= c->step;
        if (kept > CHECKPOINTS_KEPT)
            st = file_remove(path_of_step(a, c, steps.data[i]));
    }
    status_free(st);
}

static Status
write_file(Arena *a, const RtCheckpoints *c)
{
    RtArchive header = header_of(a, c);
    FilePart parts[] = {{header.data, header.len},
                        {c->state->data, c->state->len}};
    if (c->events)
        TRY(rt_events_sync(c->events));
    return file_write_parts(path_of_step(a, c, c->step), parts, 2);
}

static void *
write_in_thread(void *arg)
{
    RtCheckpoints *c = arg;
    Arena *a = arena_new(NULL, "a checkpoint");
    c->written = write_file(a, c);
    if (!c->written) {
        atomic_store(&c->last, c->step);
        prune(a, c);
    }
    arena_release(a);
    return NULL;
}

void
rt_checkpoints_write(RtCheckpoints *c, int64_t step, const RtArchive *state,
                     RtEvents *events)
{
    assert(!c->is_writing); /* it still reads the state that it was given */
    c->step = step;
    c->state = state;
    c->events = events;
    c->is_writing = pthread_create(&c->thread, NULL, write_in_thread, c) == 0;
    if (!c->is_writing)
        write_in_thread(c);
}

Status
rt_checkpoints_wait(RtCheckpoints *c)
{
    if (c->is_writing)
        pthread_join(c->thread, NULL);
    c->is_writing = false;
    Status st = c->written;
    c->written = OK;
    return status_note(st, "writing the checkpoint after step %lld",
                       (long long)c->step);
}

int64_t
rt_checkpoints_last(const RtCheckpoints *c)
{
    return atomic_load(&c->last);
}

void
rt_checkpoints_close(RtCheckpoints *c)
{
    if (!c)
        return;
    status_free(rt_checkpoints_wait(c));
    if (c->lock >= 0)
        close(c->lock);
    arena_release(c->arena);
}
