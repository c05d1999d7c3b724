/*
 * calls.c - the functions of the fake CUDA driver
 *
 * They are defined under the real cuda.h where there is one.  What hardware or
 * the driver would answer with an error is an error here; what it would punish
 * silently, or much later, ends the process with a complaint.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/cuda/fake/fake.h"

#ifndef CUDAAPI
#define CUDAAPI
#endif
#define EXPORT __attribute__((visibility("default"))) CUresult CUDAAPI

enum {
    MOST_THREADS = 1024, /* of a block */
    STATIC_SHARED = 48 << 10,
    DYNAMIC_SHARED = 227 << 10, /* with leave */
    PARAM_BYTES = 0x1100,
    PROCESSORS = 4,
    NOT_YET = 2 /* of so many questions one is told to wait */
};

/* ---- entering and leaving --------------------------------------------------
 */

typedef enum Need { ANYTIME, INITIALISED, CONTEXT, GIVES_BACK } Need;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUcontext current;
static _Thread_local bool in_callback;
static pid_t process;

typedef struct Count {
    const char *call;
    unsigned long long number;
} Count;

static Count counts[] = {
#define CUDA_CALL(name, params) {#name, 0},
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL
};

enum { NUM_CALLS = sizeof counts / sizeof counts[0] };

static unsigned long long
count(const char *call)
{
    for (int i = 0; i < NUM_CALLS; i++)
        if (strcmp(counts[i].call, call) == 0)
            return ++counts[i].number;
    fake_complain("%s is not in driver.def", call);
}

static void
read_options(void)
{
    fake_options(&fake_world.options);
    fake_world.random = fake_world.options.seed;
    fake_world.lost = CUDA_SUCCESS;
    fake_world.has_failed = false;
    process = getpid();
    for (int i = 0; i < NUM_CALLS; i++)
        counts[i].number = 0;
    for (int i = 0; i < MAX_DEVICES; i++) {
        fake_world.devices[i].number = i;
        fake_world.devices[i].context.device = &fake_world.devices[i];
    }
}

/* Whether this call is the one that fails.  Errors from 700 on are for good. */
static CUresult
failure_of(const char *call, unsigned long long number)
{
    const FakeOptions *o = &fake_world.options;
    if (strcmp(o->fail, call) != 0 ||
        number != (unsigned long long)o->fail_number)
        return CUDA_SUCCESS;
    fake_world.has_failed = true;
    if (o->fail_error >= 700 && o->fail_error < 800)
        fake_world.lost = (CUresult)o->fail_error;
    return (CUresult)o->fail_error;
}

static CUresult
enter(const char *call, Need need)
{
    if (in_callback)
        fake_complain("%s is called by a function of cuLaunchHostFunc", call);
    pthread_mutex_lock(&lock);
    if (!process)
        read_options();
    if (process != getpid())
        fake_complain("%s in a process that was forked after cuInit", call);
    CUresult failed = failure_of(call, count(call));
    if (failed || need == ANYTIME)
        return failed;
    if (!fake_world.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need >= CONTEXT && !current)
        fake_complain("%s by a thread without a context", call);
    return need == GIVES_BACK ? CUDA_SUCCESS : fake_world.lost;
}

static void
leave(int *unused)
{
    (void)unused;
    pthread_mutex_unlock(&lock);
}

/* The lock is held to the end of the function. */
#define ENTER(need)                                                            \
    CUresult failed = enter(__func__, need);                                   \
    int held __attribute__((cleanup(leave), unused)) = 0;                      \
    if (failed && (need) != GIVES_BACK)                                        \
    return failed

/* Objects belong to contexts. */
static void
check_context(const char *call, CUcontext of, const char *what)
{
    if (of != current)
        fake_complain("%s is given %s of another context", call, what);
}

/* ---- the driver and its devices ---------------------------------------------
 */

EXPORT
cuInit(unsigned int flags)
{
    ENTER(ANYTIME);
    fake_world.is_initialised = fake_world.options.devices > 0;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_world.is_initialised ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

EXPORT
cuDriverGetVersion(int *version)
{
    ENTER(ANYTIME);
    *version = fake_world.options.version;
    return CUDA_SUCCESS;
}

static const struct {
    const char *name;
    long long value;
} known_values[] = {
#define CUDA_VALUE(kind, name, value) {#name, value},
#include "runtime/hal/cuda/driver.def"
#undef CUDA_VALUE
};

EXPORT
cuGetErrorName(CUresult error, const char **text)
{
    ENTER(ANYTIME);
    for (size_t i = 0; i < sizeof known_values / sizeof *known_values; i++)
        if (known_values[i].value == (long long)error &&
            strncmp(known_values[i].name, "CUDA_ERROR", 10) == 0) {
            *text = known_values[i].name;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT
cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    ENTER(ANYTIME);
    *text = "the fake driver says so";
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGetCount(int *num)
{
    ENTER(INITIALISED);
    *num = fake_world.options.devices;
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(INITIALISED);
    if (ordinal < 0 || ordinal >= fake_world.options.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

static bool
is_device(CUdevice device)
{
    return device >= 0 && device < fake_world.options.devices;
}

EXPORT
cuDeviceGetName(char *name, int len, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device) || len <= 0)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = PROCESSORS;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = fake_world.options.capability / 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = fake_world.options.capability % 10;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT
cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = fake_world.options.memory;
    return CUDA_SUCCESS;
}

/* ---- contexts
 * ---------------------------------------------------------------- */

static int
num_retained(void)
{
    int num = 0;
    for (int i = 0; i < MAX_DEVICES; i++)
        num += fake_world.devices[i].retained;
    return num;
}

EXPORT
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    fake_world.devices[device].retained++;
    *context = &fake_world.devices[device].context;
    return CUDA_SUCCESS;
}

/* What a device that was not given back by request still has. */
static void
check_left(const Device *d)
{
    if (fake_num_pending((CUcontext)&d->context))
        fake_complain("the context of device %d is released while %d "
                      "operations are pending",
                      d->number, fake_num_pending((CUcontext)&d->context));
    if (d->streams + d->events + d->modules + d->memories + d->pinned)
        fake_complain("the context of device %d is released with %d streams, "
                      "%d events, %d modules, %d allocations and %d of pinned "
                      "memory",
                      d->number, d->streams, d->events, d->modules, d->memories,
                      d->pinned);
}

EXPORT
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device) || !fake_world.devices[device].retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--fake_world.devices[device].retained == 0)
        check_left(&fake_world.devices[device]);
    if (num_retained() == 0)
        process = 0; /* the next run reads its options */
    return CUDA_SUCCESS;
}

EXPORT
cuCtxSetCurrent(CUcontext context)
{
    ENTER(INITIALISED);
    if (context && !context->device->retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    current = context;
    return CUDA_SUCCESS;
}

/* ---- code
 * --------------------------------------------------------------------- */

/* The reason, where the caller has asked for it. */
static void
write_log(unsigned int num, CUjit_option *options, void **values,
          const char *text)
{
    char *log = NULL;
    size_t bytes = 0;
    for (unsigned int i = 0; i < num; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            bytes = (size_t)(uintptr_t)values[i];
    }
    if (log && bytes)
        snprintf(log, bytes, "%s\n", text);
}

static CUresult
check_module(const PtxModule *m, char *reason, size_t n)
{
    const FakeOptions *o = &fake_world.options;
    int major = o->version / 1000, minor = o->version % 1000 / 10;
    int known = 10 * (major - 4) + minor; /* PTX 7.4 of CUDA 11.4 */
    if (ptx_module_version(m) > known) {
        snprintf(reason, n, "Unsupported .version %d.%d",
                 ptx_module_version(m) / 10, ptx_module_version(m) % 10);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    if (ptx_module_target(m) > o->capability) {
        snprintf(reason, n, "target sm_%d on a device of %d",
                 ptx_module_target(m), o->capability);
        return CUDA_ERROR_INVALID_PTX;
    }
    for (int i = 0; i < ptx_module_num_kernels(m); i++)
        if (ptx_kernel_info(ptx_module_kernel(m, i))->static_shared >
            STATIC_SHARED) {
            snprintf(reason, n, "more than 48 KB of static shared memory");
            return CUDA_ERROR_INVALID_PTX;
        }
    return CUDA_SUCCESS;
}

EXPORT
cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int num,
                   CUjit_option *options, void **values)
{
    static uint64_t globals = (uint64_t)1 << 20;
    PtxError error;
    ENTER(CONTEXT);
    PtxModule *m = ptx_module_open(image, strlen(image), globals, &error);
    if (!m) {
        char text[512];
        snprintf(text, sizeof text, "line %d: %s", error.line, error.text);
        write_log(num, options, values, text);
        return CUDA_ERROR_INVALID_PTX;
    }
    char reason[256];
    CUresult wrong = check_module(m, reason, sizeof reason);
    if (wrong) {
        write_log(num, options, values, reason);
        ptx_module_close(m);
        return wrong;
    }
    CUmodule out = fake_alloc(sizeof *out);
    out->context = current;
    out->module = m;
    current->device->modules++;
    *module = out;
    return CUDA_SUCCESS;
}

EXPORT
cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(CONTEXT);
    check_context(__func__, module->context, "a module");
    const PtxKernel *kernel = ptx_module_find(module->module, name);
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    CUfunction f = fake_alloc(sizeof *f);
    *f = (struct CUfunc_st){module, kernel, module->functions};
    *function = module->functions = f;
    return CUDA_SUCCESS;
}

EXPORT
cuModuleUnload(CUmodule module)
{
    ENTER(GIVES_BACK);
    check_context(__func__, module->context, "a module");
    while (module->functions) {
        CUfunction f = module->functions;
        module->functions = f->next;
        free(f);
    }
    ptx_module_close(module->module);
    module->context->device->modules--;
    free(module);
    return failed;
}

static unsigned
threads_of(const PtxKernelInfo *info)
{
    unsigned n = info->reqntid[0] * (info->reqntid[1] ? info->reqntid[1] : 1) *
                 (info->reqntid[2] ? info->reqntid[2] : 1);
    return n ? n : info->maxntid ? info->maxntid : MOST_THREADS;
}

EXPORT
cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                   CUfunction function)
{
    ENTER(CONTEXT);
    const PtxKernelInfo *info = ptx_kernel_info(function->kernel);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        *value = (int)threads_of(info);
    else if (attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        *value = (int)info->static_shared;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

EXPORT
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                            int threads, size_t shared)
{
    ENTER(CONTEXT);
    const PtxKernelInfo *info = ptx_kernel_info(function->kernel);
    size_t bytes = info->static_shared + shared;
    int resident = fake_world.options.threads;
    int by_shared = bytes ? (int)(DYNAMIC_SHARED / bytes) : resident;
    int by_threads = resident / (threads > 0 ? threads : 1);
    *blocks = by_shared < by_threads ? by_shared : by_threads;
    return CUDA_SUCCESS;
}

/* ---- memory
 * ------------------------------------------------------------------- */

EXPORT
cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    ENTER(CONTEXT);
    return fake_memory_new(current, bytes, at);
}

EXPORT
cuMemFree_v2(CUdeviceptr at)
{
    ENTER(GIVES_BACK);
    Memory *m = fake_memory_find(at, 0);
    if (!m || m->at != at)
        fake_complain("%s of what is no allocation, or no longer", __func__);
    check_context(__func__, m->context, "memory");
    if (fake_num_pending(m->context) && !fake_world.has_failed)
        fake_complain("%s while operations are pending", __func__);
    fake_memory_free(m);
    return failed;
}

EXPORT
cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER(CONTEXT);
    *total = fake_world.options.memory;
    *available = *total - current->device->used;
    return CUDA_SUCCESS;
}

EXPORT
cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    Pinned *p = fake_alloc(sizeof *p);
    *p = (Pinned){current, fake_alloc(bytes), fake_world.pinned};
    fake_world.pinned = p;
    current->device->pinned++;
    *at = p->at;
    return CUDA_SUCCESS;
}

EXPORT
cuMemFreeHost(void *at)
{
    ENTER(GIVES_BACK);
    Pinned **p = &fake_world.pinned;
    while (*p && (*p)->at != at)
        p = &(*p)->next;
    if (!*p)
        fake_complain("%s of what is not pinned memory, or no longer",
                      __func__);
    Pinned *gone = *p;
    *p = gone->next;
    gone->context->device->pinned--;
    free(gone->at);
    free(gone);
    return failed;
}

/* ---- work
 * --------------------------------------------------------------------- */

static CUresult
add(const char *call, CUstream stream, Op op)
{
    if (!stream)
        fake_complain("%s on the stream that all others wait for", call);
    check_context(call, stream->context, "a stream");
    op.call = call;
    fake_add(stream, &op);
    return CUDA_SUCCESS;
}

/* What is wrong is noticed at the call, if it is wrong then. */
static void
check_memory(const char *call, CUdeviceptr at, size_t bytes)
{
    const Memory *m = fake_memory_find(at, bytes);
    if (!m)
        fake_complain("%s of %zu bytes outside the device's memory, or of "
                      "memory that was freed",
                      call, bytes);
    if (m->context != current)
        fake_complain("%s of memory of another context", call);
}

EXPORT
cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                     CUstream stream)
{
    ENTER(CONTEXT);
    check_memory(__func__, to, bytes);
    fake_world.bytes_in += bytes;
    return add(__func__, stream,
               (Op){.kind = OP_HTOD,
                    .to = to,
                    .host_from = from,
                    .bytes = bytes,
                    .hash = fake_hash(from, bytes)});
}

EXPORT
cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(CONTEXT);
    check_memory(__func__, from, bytes);
    memset(to, POISON, bytes);
    fake_world.bytes_out += bytes;
    return add(
        __func__, stream,
        (Op){.kind = OP_DTOH, .host_to = to, .from = from, .bytes = bytes});
}

EXPORT
cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                     CUstream stream)
{
    ENTER(CONTEXT);
    check_memory(__func__, to, bytes);
    check_memory(__func__, from, bytes);
    return add(__func__, stream,
               (Op){.kind = OP_DTOD, .to = to, .from = from, .bytes = bytes});
}

EXPORT
cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                  CUcontext from_context, size_t bytes, CUstream stream)
{
    ENTER(CONTEXT);
    const Memory *target = fake_memory_find(to, bytes);
    const Memory *source = fake_memory_find(from, bytes);
    if (!target || !source || target->context != to_context ||
        source->context != from_context)
        fake_complain("%s of %zu bytes that are not of these contexts",
                      __func__, bytes);
    return add(__func__, stream,
               (Op){.kind = OP_DTOD, .to = to, .from = from, .bytes = bytes});
}

EXPORT
cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes,
                CUstream stream)
{
    ENTER(CONTEXT);
    check_memory(__func__, to, bytes);
    return add(__func__, stream,
               (Op){.kind = OP_SET, .to = to, .byte = byte, .bytes = bytes});
}

/* The block of parameters of a launch that passes them as one. */
static CUresult
read_extra(void **extra, const void **block, size_t *bytes)
{
    *block = NULL;
    *bytes = 0;
    for (; extra && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *block = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *bytes = *(size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult
check_launch(const PtxKernelInfo *info, const unsigned *grid,
             const unsigned *block, unsigned shared, size_t bytes)
{
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > INT32_MAX ||
        grid[1] > UINT16_MAX || grid[2] > UINT16_MAX || threads == 0 ||
        threads > MOST_THREADS || bytes > PARAM_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (info->static_shared + shared > STATIC_SHARED)
        return CUDA_ERROR_INVALID_VALUE; /* more needs leave */
    if (info->reqntid[0] && threads != threads_of(info))
        fake_complain("%s is launched with blocks of %llu threads, and asks "
                      "for %u",
                      info->name, (unsigned long long)threads,
                      threads_of(info));
    if (bytes != info->param_bytes)
        fake_complain("%s is launched with %zu bytes of parameters, and has "
                      "%u",
                      info->name, bytes, info->param_bytes);
    return CUDA_SUCCESS;
}

EXPORT
cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
               unsigned int grid_z, unsigned int block_x, unsigned int block_y,
               unsigned int block_z, unsigned int shared, CUstream stream,
               void **params, void **extra)
{
    const void *block;
    size_t bytes;
    ENTER(CONTEXT);
    const PtxKernelInfo *info = ptx_kernel_info(function->kernel);
    check_context(__func__, function->module->context, "a function");
    if (params || read_extra(extra, &block, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    Op op = {.kind = OP_KERNEL,
             .kernel = function->kernel,
             .grid = {grid_x, grid_y, grid_z},
             .block = {block_x, block_y, block_z},
             .shared = shared};
    CUresult wrong = check_launch(info, op.grid, op.block, shared, bytes);
    if (wrong)
        return wrong;
    op.params = fake_alloc(bytes);
    if (bytes)
        memcpy(op.params, block, bytes);
    fake_world.launches++;
    return add(info->name, stream, op);
}

typedef struct Call {
    CUhostFn function;
    void *data;
} Call;

static void
call_back(void *data)
{
    Call call = *(Call *)data;
    free(data);
    in_callback = true;
    call.function(call.data);
    in_callback = false;
}

EXPORT
cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    ENTER(CONTEXT);
    Call *call = fake_alloc(sizeof *call);
    *call = (Call){function, data};
    return add(__func__, stream,
               (Op){.kind = OP_CALL, .function = call_back, .data = call});
}

/* ---- streams and events
 * --------------------------------------------------------- */

EXPORT
cuStreamCreate(CUstream *stream, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags != CU_STREAM_NON_BLOCKING)
        fake_complain("%s of a stream that the default stream waits for",
                      __func__);
    int slot = 0;
    while (slot < MAX_STREAMS && fake_world.streams[slot])
        slot++;
    if (slot == MAX_STREAMS)
        fake_complain("more than %d streams", MAX_STREAMS);
    CUstream s = fake_alloc(sizeof *s);
    s->context = current;
    s->slot = slot;
    s->clock[slot] = fake_world.added[slot];
    fake_world.streams[slot] = s;
    current->device->streams++;
    *stream = s;
    return CUDA_SUCCESS;
}

/* What has not been executed never will be. */
static void
drop_operations(CUstream s)
{
    while (s->first) {
        Op *op = s->first;
        s->first = op->next;
        if (op->kind == OP_CALL)
            free(op->data);
        free(op->params);
        free(op);
    }
    fake_world.executed[s->slot] = fake_world.added[s->slot];
}

EXPORT
cuStreamDestroy_v2(CUstream stream)
{
    ENTER(GIVES_BACK);
    check_context(__func__, stream->context, "a stream");
    if (stream->first && !fake_world.has_failed)
        fake_complain("%s of a stream with pending operations", __func__);
    drop_operations(stream);
    fake_world.streams[stream->slot] = NULL;
    stream->context->device->streams--;
    free(stream);
    return failed;
}

EXPORT
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    check_context(__func__, stream->context, "a stream");
    fake_join(stream->clock, event->clock);
    return CUDA_SUCCESS;
}

EXPORT
cuEventCreate(CUevent *event, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags != CU_EVENT_DISABLE_TIMING)
        fake_complain("%s of an event that takes the time", __func__);
    CUevent e = fake_alloc(sizeof *e);
    e->context = current;
    current->device->events++;
    *event = e;
    return CUDA_SUCCESS;
}

EXPORT
cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(CONTEXT);
    check_context(__func__, event->context, "an event");
    add(__func__, stream, (Op){.kind = OP_NOTHING});
    event->at = (Mark){stream->slot, stream->clock[stream->slot]};
    memcpy(event->clock, stream->clock, sizeof event->clock);
    return CUDA_SUCCESS;
}

EXPORT
cuEventQuery(CUevent event)
{
    ENTER(CONTEXT);
    check_context(__func__, event->context, "an event");
    if (!fake_has_happened(event->at) && fake_random(NOT_YET) == 0)
        return CUDA_ERROR_NOT_READY;
    fake_run_until(event->at, event->clock);
    fake_join(fake_world.seen, event->clock);
    return CUDA_SUCCESS;
}

EXPORT
cuEventDestroy_v2(CUevent event)
{
    ENTER(GIVES_BACK);
    check_context(__func__, event->context, "an event");
    event->context->device->events--;
    free(event);
    return failed;
}

/* ---- the end
 * -------------------------------------------------------------------- */

__attribute__((destructor)) static void
end(void)
{
    if (fake_world.machine)
        ptx_machine_free(fake_world.machine);
    if (process && num_retained() && !fake_world.has_failed)
        fake_complain("the process ends with a context that it has");
    if (!fake_world.options.count)
        return;
    fprintf(stderr,
            "fake driver: %llu launches, %llu bytes in, %llu bytes out\n",
            (unsigned long long)fake_world.launches,
            (unsigned long long)fake_world.bytes_in,
            (unsigned long long)fake_world.bytes_out);
    for (int i = 0; i < NUM_CALLS; i++)
        if (counts[i].number)
            fprintf(stderr, "fake driver: %llu %s\n", counts[i].number,
                    counts[i].call);
}
