/*
 * output.c - the standard output of a run
 */
#include "runtime/exec/output.h"

#include <errno.h>
#include "ir/base/io/file.h"
#include "runtime/exec/run_state.h"

Status
rt_flush(const RtRun *run)
{
    FILE *out = run->options->out;
    if (fflush(out) != 0 || ferror(out))
        return file_error(run->out_error ? run->out_error : errno,
                          "cannot write what the program prints");
    return OK;
}

/* glibc reports a line that was accepted and could not be written only by
 * ferror. */
void
rt_print(RtRun *run, const char *text, size_t len)
{
    FILE *out = run->options->out;
    rt_progress_clear(&run->progress);
    if (run->out_error)
        return;
    if (fwrite(text, 1, len, out) < len || ferror(out))
        run->out_error = errno;
}

/* Line i of a replica, if it printed that many. */
static void
write_line(RtRun *run, const RtLines *lines, int i)
{
    if (i >= lines->lines.len)
        return;
    size_t begin = i ? lines->lines.data[i - 1].end : 0;
    size_t end = lines->lines.data[i].end;
    if (end > begin)
        rt_print(run, lines->text.data + begin, end - begin);
}

void
rt_print_lines(RtRun *run)
{
    int most = 0;
    for (int r = 0; r < run->num_replicas; r++) {
        int n = run->replicas[r].lines.lines.len;
        most = n > most ? n : most;
    }
    for (int i = 0; i < most; i++) {
        for (int r = 0; r < run->num_replicas; r++)
            write_line(run, &run->replicas[r].lines, i);
    }
    for (int r = 0; r < run->num_replicas; r++) {
        run->replicas[r].lines.lines.len = 0;
        run->replicas[r].lines.text.len = 0;
    }
}
