/*
 * life.c - a run that is stopped and resumed after one of its steps
 *
 * The second run has only the checkpoint of the first, so if a value that main
 * still needs is not in it, the output differs.  It may run on other
 * devices: a checkpoint does not know where the replicas were.
 */
#include "tests/random/life.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/io/file.h"

typedef struct Stop {
    int64_t step;
    atomic_bool now;
} Stop;

static void
stop_at(void *data, int64_t step)
{
    Stop *stop = data;
    if (step == stop->step)
        atomic_store(&stop->now, true);
}

/* Where syncing costs nothing, if there is such a place. */
static char *
new_folder(Arena *a)
{
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    return mkdtemp(arena_printf(a, "%s/tfd-random-XXXXXX", where));
}

static void
remove_folder(Arena *a, const char *folder)
{
    FileNames names;
    Status st = file_list(a, folder, &names);
    for (int i = 0; !st && i < names.len; i++)
        if (names.data[i][0] != '.')
            st = file_remove(arena_printf(a, "%s/%s", folder, names.data[i]));
    status_free(st);
    rmdir(folder);
}

/* One of the two, to the same output. */
static Status
live(const Plan *plan, RtOptions options, FILE *out, const char *folder,
     Stop *stop)
{
    options.out = out;
    options.checkpoint_dir = folder;
    options.every = INT64_MAX;
    options.resume = true;
    options.quiet = true;
    options.interrupted = &stop->now;
    options.on_step = stop_at;
    options.on_step_data = stop;
    return rt_run(plan, &options);
}

static const char *
verdict(Arena *a, Status stopped, Status ended, int64_t step, const char *have,
        const char *want)
{
    bool was_stopped = stopped && status_kind(stopped) == STATUS_STOPPED;
    if (!was_stopped || ended)
        return arena_printf(a, "after step %lld: %s, %s", (long long)step,
                            stopped ? status_message(stopped) : "not stopped",
                            ended ? status_message(ended) : "ended");
    if (strcmp(have, want) != 0)
        return arena_printf(a, "after step %lld:\n%s---\n%s", (long long)step,
                            have, want);
    return NULL;
}

const char *
life_check(Arena *a, const Plan *plan, const RtOptions *options,
           const char *then, int64_t num_steps, uint64_t seed, const char *want)
{
    size_t len;
    char *have, *folder = new_folder(a);
    Stop stop = {.step = 1 + (int64_t)(seed % (uint64_t)num_steps)},
         never = {0};
    if (!folder)
        return "no folder for checkpoints";
    FILE *out = open_memstream(&have, &len);
    Status stopped = live(plan, *options, out, folder, &stop);
    RtOptions elsewhere = *options;
    elsewhere.devices = then;
    Status ended = live(plan, elsewhere, out, folder, &never);
    fclose(out);
    const char *wrong = verdict(a, stopped, ended, stop.step, have, want);
    status_free(stopped);
    status_free(ended);
    free(have);
    remove_folder(a, folder);
    return wrong;
}
