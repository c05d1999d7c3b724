/*
 * output.c - the standard output of a run
 */
#include "runtime/exec/output.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include "ir/base/io/file.h"
#include "runtime/checkpoint/archive.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/run_state.h"
#include "runtime/exec/summaries.h"

Status
rt_flush(RtRun *run)
{
    FILE *out = run->options->out;
    atomic_fetch_add(&run->watchdog.prints, 1);
    bool failed = fflush(out) != 0 || ferror(out);
    atomic_fetch_sub(&run->watchdog.prints, 1);
    if (failed)
        return file_error(run->out_error ? run->out_error : errno,
                          "cannot write what the program prints");
    return OK;
}

static void
put(FILE *out, const char *prefix, const char *text, size_t len)
{
    for (size_t n; prefix && len; text += n, len -= n) {
        const char *end = memchr(text, '\n', len);
        n = end ? (size_t)(end - text) + 1 : len;
        fputs(prefix, out);
        fwrite(text, 1, n, out);
    }
    fwrite(text, 1, len, out);
}

/* glibc reports a line that was accepted and could not be written only by
 * ferror. */
void
rt_print(RtRun *run, const char *text, size_t len)
{
    FILE *out = run->options->out;
    if (!rt_is_chief(run))
        return;
    rt_progress_clear(&run->progress);
    if (run->out_error)
        return;
    put(out, run->prefix, text, len);
    if (ferror(out))
        run->out_error = errno;
}

/* ---- lines of replicas --------------------------------------------------- */

/* Line i of a replica, if it printed that many. */
static Status
write_line(RtRun *run, const RtLines *lines, int i)
{
    if (i >= lines->lines.len)
        return OK;
    size_t begin = i ? lines->lines.data[i - 1].end : 0;
    size_t end = lines->lines.data[i].end;
    if (end == begin)
        return OK;
    const char *line = lines->text.data + begin;
    if (lines->lines.data[i].is_summary)
        return rt_summary_write_line(run, line, end - begin);
    rt_print(run, line, end - begin);
    return OK;
}

static int
most_lines(const RtExecutor *replicas, int n)
{
    int most = 0;
    for (int r = 0; r < n; r++)
        if (replicas[r].lines.lines.len > most)
            most = replicas[r].lines.lines.len;
    return most;
}

static Status
write_lines(RtRun *run, const RtExecutor *replicas, int n)
{
    for (int i = 0, most = most_lines(replicas, n); i < most; i++) {
        for (int r = 0; r < n; r++)
            TRY(write_line(run, &replicas[r].lines, i));
    }
    return OK;
}

/* Of a process that is not the chief, which would have printed line i of this
 * replica. */
static void
show_line(const RtRun *run, const RtLines *lines, int i)
{
    if (i >= lines->lines.len || lines->lines.data[i].is_summary)
        return;
    size_t begin = i ? lines->lines.data[i - 1].end : 0;
    put(run->options->err, NULL, lines->text.data + begin,
        lines->lines.data[i].end - begin);
}

/* The step failed in some process, and over a link the chief cannot have what
 * it printed before: each process shows its own, where it says why it ends.  If
 * the wait for the chief was ended, it may have them: better twice than never.
 */
static void
show_own_lines(RtRun *run)
{
    const RtExecutor *own = run->locals;
    if (rt_is_chief(run)) {
        status_free(write_lines(run, own, run->num_local));
        return;
    }
    for (int i = 0, most = most_lines(own, run->num_local); i < most; i++)
        for (int r = 0; r < run->num_local; r++)
            show_line(run, &own[r].lines, i);
    fflush(run->options->err);
}

static void
forget_lines(RtRun *run)
{
    for (int r = 0; r < run->num_replicas; r++) {
        run->replicas[r].lines.lines.len = 0;
        run->replicas[r].lines.text.len = 0;
    }
}

/* ---- lines of other processes -------------------------------------------- */

/* For each replica: how many lines, the end of each, none before the one before
 * it or behind the text, which follows. */
static void
lines_archive(RtExecutor *replica, RtArchive *ar)
{
    RtLines *l = &replica->lines;
    int64_t count = l->lines.len, end = 0;
    rt_archive_count(ar, &count, INT_MAX, sizeof end);
    if (ar->reads)
        l->lines.len = 0;
    for (int i = 0; i < count; i++) {
        int64_t least = end;
        int64_t is_summary = ar->reads ? 0 : l->lines.data[i].is_summary;
        end = ar->reads ? 0 : (int64_t)l->lines.data[i].end;
        rt_archive_i64(ar, &end, least, INT64_MAX);
        rt_archive_i64(ar, &is_summary, 0, 1);
        if (ar->reads)
            VEC_PUSH(replica->arena, l->lines,
                     ((RtLine){(size_t)end, 0, is_summary != 0}));
    }
    count = (int64_t)l->text.len;
    rt_archive_count(ar, &count, INT64_MAX, 1);
    if (ar->reads) {
        if (end > count)
            rt_archive_fail(ar, "a line ends behind the text");
        l->text.len = 0;
        str_addn(&l->text, ar->data + ar->at, (size_t)count);
        ar->at += (size_t)count;
    } else {
        rt_archive_bytes(ar, l->text.data, (size_t)count);
    }
}

typedef struct Gathering {
    RtRun *run;
    Status st; /* of the first part that cannot be */
} Gathering;

static void
take_lines(void *data, int rank, const void *part, size_t n)
{
    Gathering *g = data;
    RtRun *run = g->run;
    RtArchive ar = rt_archive_reader(run->arena, part, n);
    if (rank == run->rank || g->st)
        return;
    for (int i = 0; i < run->num_local; i++)
        lines_archive(&run->replicas[rank * run->num_local + i], &ar);
    g->st = status_note(rt_archive_end(&ar),
                        "reading what replicas of rank %d print", rank);
}

/* None goes on before the chief has all. */
static Status
gather_lines(RtRun *run)
{
    RtArchive *ar = &run->lines;
    Gathering g = {run, OK};
    if (!ar->arena)
        *ar = rt_archive_writer(run->arena, 0);
    rt_archive_clear(ar);
    for (int i = 0; i < run->num_local; i++)
        lines_archive(&run->locals[i], ar);
    Status st = rt_gather(run, ar->data, ar->len, take_lines, &g);
    if (g.st) {
        status_free(st);
        return g.st;
    }
    TRY(st);
    return rt_wait_for_launch(run);
}

Status
rt_print_lines(RtRun *run, bool all_have_lines)
{
    Status st = OK;
    if (run->group && all_have_lines)
        st = gather_lines(run);
    atomic_fetch_add(&run->watchdog.prints, 1);
    if (st)
        show_own_lines(run);
    else
        st = write_lines(run, run->replicas, run->num_replicas);
    atomic_fetch_sub(&run->watchdog.prints, 1);
    if (!st && all_have_lines)
        st = rt_settle(run);
    rt_warn_not_finite(run);
    forget_lines(run);
    return st;
}
