/*
 * enter.c - entering and leaving a function of the fake CUDA driver
 *
 * One lock, counts, the function that fails by request, contexts of threads,
 * and what is printed at the end.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/cuda/fake/calls.h"

_Thread_local CUcontext fake_current;
_Thread_local bool fake_in_callback;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t process;

/* ---- calls --------------------------------------------------------------- */

/* What calls do beyond adding work to a stream: memory of the device or the
 * driver, and waits for work.  Those that may wait, or ask, are forbidden in a
 * capture. */
typedef enum Effect {
    ADDS = 0,
    ALLOCATES = 1 << 0,
    SYNCHRONISES = 1 << 1,
    UNSAFE = 1 << 2
} Effect;

typedef struct Call {
    const char *name;
    unsigned long long number;
    int effect;
} Call;

static Call calls[] = {
#define CUDA_CALL(name, params) {#name, 0, ADDS},
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL
};

static const struct {
    const char *name;
    int effect;
} effects[] = {
    {"cuModuleLoadDataEx", ALLOCATES | SYNCHRONISES | UNSAFE},
    {"cuModuleUnload", SYNCHRONISES | UNSAFE},
    {"cuMemAlloc_v2", ALLOCATES | SYNCHRONISES | UNSAFE},
    {"cuMemFree_v2", SYNCHRONISES | UNSAFE},
    {"cuMemHostAlloc", ALLOCATES | SYNCHRONISES | UNSAFE},
    {"cuMemFreeHost", SYNCHRONISES | UNSAFE},
    {"cuStreamCreate", ALLOCATES},
    {"cuEventCreate", ALLOCATES},
    {"cuGraphInstantiateWithFlags", ALLOCATES | UNSAFE},
};

enum {
    NUM_CALLS = sizeof calls / sizeof calls[0],
    NUM_EFFECTS = sizeof effects / sizeof effects[0]
};

static int
find_call(const char *name)
{
    for (int i = 0; i < NUM_CALLS; i++)
        if (strcmp(calls[i].name, name) == 0)
            return i;
    fake_complain("%s is not in driver.def", name);
}

/* ---- a run --------------------------------------------------------------- */

static void
read_options(void)
{
    fake_options(&fake_world.options);
    fake_world.random = fake_world.options.seed;
    fake_world.lost = CUDA_SUCCESS;
    fake_world.has_failed = false;
    memset(&fake_world.counts, 0, sizeof fake_world.counts);
    process = getpid();
    for (int i = 0; i < NUM_CALLS; i++)
        calls[i].number = 0;
    for (int i = 0; i < NUM_EFFECTS; i++)
        calls[find_call(effects[i].name)].effect = effects[i].effect;
    for (int i = 0; i < MAX_DEVICES; i++) {
        fake_world.devices[i].number = i;
        fake_world.devices[i].context.device = &fake_world.devices[i];
    }
}

void
fake_forget_options(void)
{
    process = 0;
}

/* Whether this call is the one that fails.  Errors from 700 on are for good. */
static CUresult
failure_of(const Call *call)
{
    const FakeOptions *o = &fake_world.options;
    if (call->number != (unsigned long long)o->fail_number ||
        strcmp(o->fail, call->name) != 0)
        return CUDA_SUCCESS;
    fake_world.has_failed = true;
    if (o->fail_error >= 700 && o->fail_error < 800)
        fake_world.lost = (CUresult)o->fail_error;
    return (CUresult)o->fail_error;
}

/* ---- entering and leaving ------------------------------------------------ */

static CUresult
check_need(const Call *call, Need need)
{
    if (need == ANYTIME)
        return CUDA_SUCCESS;
    if (!fake_world.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need >= CONTEXT && !fake_current)
        fake_complain("%s by a thread without a context", call->name);
    CUresult wrong =
        call->effect & UNSAFE ? fake_forbid_in_capture() : CUDA_SUCCESS;
    if (wrong && need == GIVES_BACK && !fake_world.has_failed)
        fake_complain("%s by a thread that captures", call->name);
    if (wrong || need == GIVES_BACK || need == RELEASES)
        return wrong;
    return fake_world.lost;
}

void
fake_lock(void)
{
    pthread_mutex_lock(&lock);
    if (!process)
        read_options();
}

CUresult
fake_enter(const char *name, int *number, Need need)
{
    if (fake_in_callback)
        fake_complain("%s is called by a function of cuLaunchHostFunc", name);
    fake_lock();
    if (process != getpid())
        fake_complain("%s in a process that was forked after cuInit", name);
    if (*number < 0)
        *number = find_call(name);
    Call *call = &calls[*number];
    call->number++;
    CUresult failed = failure_of(call);
    return failed ? failed : check_need(call, need);
}

void
fake_leave(int *unused)
{
    (void)unused;
    pthread_mutex_unlock(&lock);
}

bool
fake_may_leave_work(void)
{
    const char *call = fake_world.options.fail;
    return fake_world.has_failed &&
           (fake_world.lost || strncmp(call, "cuEvent", 7) == 0 ||
            strcmp(call, "cuCtxSetCurrent") == 0);
}

void
fake_check_context(const char *call, CUcontext of, const char *what)
{
    if (of != fake_current && !fake_world.lost) /* no context is set then */
        fake_complain("%s is given %s of another context", call, what);
}

/* ---- the end ------------------------------------------------------------- */

static unsigned long long
num_with(Effect effect)
{
    unsigned long long num = 0;
    for (int i = 0; i < NUM_CALLS; i++)
        num += calls[i].effect & effect ? calls[i].number : 0;
    return num;
}

static void
print_counts(void)
{
    const Counts *c = &fake_world.counts;
    fprintf(stderr,
            "fake driver: %llu launches, %llu graph launches of %llu nodes\n",
            c->ops[OP_KERNEL], c->graph_launches, c->nodes);
    fprintf(stderr,
            "fake driver: %llu copies in, %llu out, %llu on devices, %llu "
            "fills\n",
            c->ops[OP_HTOD], c->ops[OP_DTOH], c->ops[OP_DTOD], c->ops[OP_SET]);
    fprintf(stderr, "fake driver: %llu bytes in, %llu out, %llu on devices\n",
            c->bytes[OP_HTOD], c->bytes[OP_DTOH], c->bytes[OP_DTOD]);
    fprintf(stderr,
            "fake driver: %llu calls that allocate, %llu that synchronise\n",
            num_with(ALLOCATES), num_with(SYNCHRONISES));
    for (int i = 0; i < NUM_CALLS; i++)
        if (calls[i].number)
            fprintf(stderr, "fake driver: %llu %s\n", calls[i].number,
                    calls[i].name);
}

__attribute__((destructor)) static void
end(void)
{
    if (fake_world.machine)
        ptx_machine_free(fake_world.machine);
    bool may_keep = strstr(fake_world.options.fail, "CtxRelease") != NULL;
    if (process && fake_num_retained() && !may_keep)
        fake_complain("the process ends with a context that it has");
    if (fake_world.options.count)
        print_counts();
}
