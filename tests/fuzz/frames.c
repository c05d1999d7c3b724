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
    RtPsSaving saving;
    RtPsLoad load;
    RtPsStatus status;
    RtPsRequest request;
    const char *why;
} Message;

/* False: nothing else stands in it, or it ends with its head. */
static bool
has_rest(RtPsType type)
{
    return type == RT_PS_RUN || type == RT_PS_DONE || type == RT_PS_STATE ||
           type == RT_PS_SAVED || type >= RT_PS_PULL;
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
    case RT_PS_START:
    case RT_PS_STATE:
    case RT_PS_SAVE:
    case RT_PS_SAVED:
        rt_ps_saving(ar, &m->saving);
        break;
    case RT_PS_LOAD:
        rt_ps_server_load(ar, &m->load);
        break;
    case RT_PS_STATUS:
        rt_ps_status(ar, &m->status);
        break;
    default:
        if (type >= RT_PS_PULL)
            rt_ps_request(ar, &m->request);
    }
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
    if (good) {
        RtArchive out = rt_archive_writer(a, 0);
        rt_ps_begin(&out, type);
        parts(&out, type, &m);
        if (!read_message(a, out.data, out.len, &again, &m) || again != type)
            fuzz_bug("a message of type %d does not read back", (int)type);
    }
    arena_release(a);
    return good;
}
