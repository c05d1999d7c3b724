/*
 * history.c - who wrote the bytes of a memory last, and who has read them since
 *
 * A memory is runs of bytes with one history.  An operation that reads a run
 * joins its readers, from which those that come before it are left out: whoever
 * follows it follows them, too.  One that writes makes one run of all.  Once a
 * call has failed by request, a device does nothing more, so that its waits and
 * events are missing: nobody looks at the results.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/fake.h"

struct History {
    int refs; /* runs that have it */
    Mark writer;
    const char *written_by;
    int num_readers;
    struct Reader {
        Mark mark;
        const char *call;
    } readers[];
};

typedef struct Reader Reader;

/* ---- histories ----------------------------------------------------------- */

static History *
history_new(int num_readers)
{
    History *h = fake_alloc(sizeof *h + (size_t)num_readers * sizeof(Reader));
    h->num_readers = num_readers;
    return h;
}

static void
release(History *h)
{
    if (h && --h->refs == 0)
        free(h);
}

static void
set_history(Run *r, History *h)
{
    if (h)
        h->refs++;
    release(r->history);
    r->history = h;
}

static void
check_writer(const History *h, const Op *op, const char *does)
{
    if (h && !fake_world.has_failed && !fake_is_before(h->writer, op))
        fake_complain("%s %s what %s wrote on another stream, and no event "
                      "orders them",
                      op->call, does, h->written_by);
}

static void
check_readers(const History *h, const Op *op)
{
    for (int i = 0; h && i < h->num_readers; i++)
        if (!fake_world.has_failed && !fake_is_before(h->readers[i].mark, op))
            fake_complain("%s overwrites what %s reads on another stream, and "
                          "no event orders them",
                          op->call, h->readers[i].call);
}

/* Once the operation has read, too. */
static History *
with_reader(const History *h, const Op *op)
{
    int num = h ? h->num_readers : 0, kept = 0;
    History *out = history_new(num + 1);
    if (h) {
        out->writer = h->writer;
        out->written_by = h->written_by;
    }
    for (int i = 0; i < num; i++)
        if (!fake_is_before(h->readers[i].mark, op))
            out->readers[kept++] = h->readers[i];
    out->readers[kept++] = (Reader){op->mark, op->call};
    out->num_readers = kept;
    return out;
}

/* ---- runs ---------------------------------------------------------------- */

void
fake_history_open(Memory *m)
{
    m->cap_runs = 16;
    m->runs = fake_alloc((size_t)m->cap_runs * sizeof *m->runs);
    m->num_runs = 1;
}

void
fake_history_close(Memory *m)
{
    for (int i = 0; i < m->num_runs; i++)
        release(m->runs[i].history);
    free(m->runs);
}

/* The run that has a byte. */
static int
find_run(const Memory *m, size_t at)
{
    int low = 0, high = m->num_runs;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        *(m->runs[middle].begin <= at ? &low : &high) = middle;
    }
    return low;
}

/* So that a run begins there; its number. */
static int
split(Memory *m, size_t at)
{
    int i = find_run(m, at);
    if (m->runs[i].begin == at)
        return i;
    if (at >= m->bytes)
        return m->num_runs;
    if (m->num_runs == m->cap_runs) {
        m->cap_runs *= 2;
        m->runs = realloc(m->runs, (size_t)m->cap_runs * sizeof *m->runs);
        if (!m->runs)
            fake_complain("no memory for histories");
    }
    i++;
    memmove(m->runs + i + 1, m->runs + i,
            (size_t)(m->num_runs - i) * sizeof *m->runs);
    m->num_runs++;
    m->runs[i] = (Run){at, NULL};
    set_history(&m->runs[i], m->runs[i - 1].history);
    return i;
}

/* Runs begin .. end - 1 become as few as their histories allow. */
static void
merge(Memory *m, int begin, int end)
{
    int kept = begin;
    for (int i = begin + 1; i < end; i++)
        if (m->runs[i].history == m->runs[kept].history)
            release(m->runs[i].history);
        else
            m->runs[++kept] = m->runs[i];
    memmove(m->runs + kept + 1, m->runs + end,
            (size_t)(m->num_runs - end) * sizeof *m->runs);
    m->num_runs -= end - (kept + 1);
}

void
fake_note_read(Memory *m, const Op *op, size_t at, size_t n)
{
    History *old = NULL, *new = NULL; /* of the last run */
    int begin = split(m, at), end = split(m, at + n);
    for (int i = begin; i < end; i++) {
        Run *r = &m->runs[i];
        check_writer(r->history, op, "reads");
        if (!new || r->history != old) {
            release(old);
            release(new);
            old = r->history;
            new = with_reader(old, op);
            new->refs++;
            if (old)
                old->refs++; /* its address stays its own meanwhile */
        }
        set_history(r, new);
    }
    release(old);
    release(new);
    merge(m, begin, end);
}

void
fake_note_write(Memory *m, const Op *op, size_t at, size_t n)
{
    History *new = history_new(0);
    int begin = split(m, at), end = split(m, at + n);
    new->writer = op->mark;
    new->written_by = op->call;
    for (int i = begin; i < end; i++) {
        check_writer(m->runs[i].history, op, "overwrites");
        check_readers(m->runs[i].history, op);
        set_history(&m->runs[i], new);
    }
    merge(m, begin, end);
}
