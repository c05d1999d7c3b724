/*
 * frames.c - what the processes of a parameter-server job say to each other
 *
 * Arguments, results, states and values behind a message's head are read with
 * the plan (tests/cluster/ps_strangers.py damages those); here it is the heads.
 */
#include "tests/fuzz/frames.h"

#include "runtime/ps/wire/wire.h"
#include "tests/fuzz/fuzz.h"

/* One of each. */
typedef struct Message {
    RtPsHello hello;
    RtPsWelcome welcome;
    RtPsHeartbeat heartbeat;
    RtPsSync sync;
    RtPsRun run;
    RtPsDone done;
    RtPsCommit commit;
    RtPsCommitted committed;
    int64_t cancelled;
    RtPsSaving saving;
    RtPsDealing dealing;
    RtPsLoad load;
    RtPsStatus status;
    RtPsRequest request;
    const char *why;
} Message;

/* With a server. */
static bool
is_request(RtPsType type)
{
    return type >= RT_PS_PULL && type < RT_PS_SEVERAL;
}

/* False: nothing else stands in it, or it ends with its head. */
static bool
has_rest(RtPsType type)
{
    return type == RT_PS_RUN || type == RT_PS_DONE || type == RT_PS_STATE ||
           type == RT_PS_SAVED || is_request(type);
}

static void
parts(RtArchive *ar, RtPsType type, Message *m)
{
    switch (type) {
    case RT_PS_HELLO:
        rt_ps_hello(ar, &m->hello);
        break;
    case RT_PS_WELCOME:
        rt_ps_welcome(ar, &m->welcome);
        break;
    case RT_PS_REFUSED:
        rt_archive_text(ar, &m->why);
        break;
    case RT_PS_HEARTBEAT:
        rt_ps_heartbeat(ar, &m->heartbeat);
        break;
    case RT_PS_SYNC:
        rt_ps_sync(ar, &m->sync);
        break;
    case RT_PS_RUN:
        rt_ps_run(ar, &m->run);
        break;
    case RT_PS_DONE:
        rt_ps_done(ar, &m->done);
        break;
    case RT_PS_COMMIT:
        rt_ps_commit(ar, &m->commit);
        break;
    case RT_PS_COMMITTED:
        rt_ps_committed(ar, &m->committed);
        break;
    case RT_PS_CANCEL:
        rt_archive_i64(ar, &m->cancelled, 1, INT64_MAX);
        break;
    case RT_PS_START:
    case RT_PS_STATE:
    case RT_PS_SAVE:
    case RT_PS_SAVED:
        rt_ps_saving(ar, &m->saving);
        break;
    case RT_PS_DEAL:
    case RT_PS_DEALT:
        rt_ps_dealing(ar, &m->dealing);
        break;
    case RT_PS_LOAD:
        rt_ps_server_load(ar, &m->load);
        break;
    case RT_PS_STATUS:
        rt_ps_status(ar, &m->status);
        break;
    default:
        if (is_request(type))
            rt_ps_request(ar, &m->request);
    }
}

static bool read_message(Arena *a, const char *bytes, size_t len,
                         RtPsType *type, Message *m);

/* Each of several that travel as one. */
static bool
read_several(Arena *a, RtArchive *in)
{
    RtArchive one;
    RtPsType type;
    Message m;
    bool good = true;
    while (good && rt_ps_take(in, a, &one, &type))
        good = type && read_message(a, one.data, one.len, &type, &m);
    return good && rt_ps_is_good(in);
}

static bool
read_message(Arena *a, const char *bytes, size_t len, RtPsType *type,
             Message *m)
{
    RtArchive in;
    *m = (Message){.why = ""};
    *type = rt_ps_read(&in, a, bytes, len);
    if (*type == RT_PS_NONE)
        return false;
    if (*type == RT_PS_SEVERAL)
        return read_several(a, &in);
    parts(&in, *type, m);
    if (has_rest(*type) && !in.wrong)
        in.at = in.len;
    return rt_ps_is_good(&in);
}

bool
frame_try(const char *bytes, size_t len)
{
    RtPsType type, again;
    Message m;
    Arena *a = arena_new(NULL, "fuzz");
    bool good = read_message(a, bytes, len, &type, &m);
    if (good && type != RT_PS_SEVERAL) {
        RtArchive out = rt_archive_writer(a, 0);
        rt_ps_begin(&out, type);
        parts(&out, type, &m);
        if (!read_message(a, out.data, out.len, &again, &m) || again != type)
            fuzz_bug("a message of type %d does not read back", (int)type);
    }
    arena_release(a);
    return good;
}

/* ---- samples ------------------------------------------------------------- */

static Message
sample(Arena *a, int64_t *numbers)
{
    static const char *addresses[] = {"tcp://127.0.0.1:17000", "tcp://b:2"};
    RtPsTask *tasks = NEW_ARRAY(a, RtPsTask, 2);
    for (int i = 0; i < 2; i++)
        tasks[i] = (RtPsTask){.host = "b", .pid = 77, .in_flight = 3};
    return (Message){
        .hello = {RT_ROLE_worker, 1, 5, 9, 11, 77, "abc", "host", "tcp://b:2"},
        .welcome = {.job = 9,
                    .num_servers = 2,
                    .addresses = addresses,
                    .num_workers = 2,
                    .params = "params",
                    .params_len = 6,
                    .staleness = -1},
        .heartbeat = {RT_ROLE_ps, 1, 5},
        .sync = {1, 5, 3},
        .run = {.number = 3,
                .id = 7,
                .low = 2,
                .attempt = 1,
                .num_feeds = 2,
                .indices = numbers},
        .done = {1, 5, 3, 2, 7, 1, false, false, "it failed", "x.tfd:1:1\n"},
        .commit = {3, 2, true, 2, numbers, numbers},
        .committed = {1, 3, ""},
        .cancelled = 3,
        .saving = {1, 5, 2},
        .dealing = {1, 5, 0, 1, 3, 9, "a hash", 4},
        .load = {.index = 1, .closures = 7, .staleness = {3, 4}},
        .status = {.scheduled = 9,
                   .staleness = 4,
                   .num_workers = 2,
                   .num_servers = 2,
                   .workers = tasks,
                   .servers = tasks,
                   .loads = NEW_ARRAY(a, RtPsLoad, 2)},
        .request = {.job = 9, .number = 3, .id = 7, .role = RT_ROLE_worker},
        .why = "the job has fewer servers"};
}

static void
write_one(RtArchive *out, RtPsType type, Message *m)
{
    char rest[] = "what stands behind its head";
    rt_ps_begin(out, type);
    parts(out, type, m);
    if (has_rest(type))
        rt_archive_bytes(out, rest, sizeof rest);
}

const char *
frame_make(Arena *a, int i, RtArchive *out)
{
    RtPsType type = (RtPsType)(RT_PS_NONE + 1 + i);
    int64_t numbers[] = {7, 8};
    Message m = sample(a, numbers);
    if (type >= RT_PS_NUM_TYPES)
        return NULL;
    *out = rt_archive_writer(a, 0);
    if (type != RT_PS_SEVERAL) {
        write_one(out, type, &m);
        return rt_ps_type_name(type);
    }
    RtArchive one = rt_archive_writer(a, 0);
    rt_ps_begin(out, type);
    for (type = RT_PS_PUSH; type >= RT_PS_PULL; type -= 2) {
        write_one(&one, type, &m);
        rt_ps_add(out, &one);
    }
    return rt_ps_type_name(RT_PS_SEVERAL);
}
