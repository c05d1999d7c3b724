/*
 * code.c - the plan's kernels on a GPU
 *
 * The driver compiles each kernel's PTX when it is loaded, and all functions
 * are asked for then: what is loaded lazily might wait for the device in the
 * midst of a step.  The text says how many bytes of parameters a kernel has,
 * which the driver does not tell before CUDA 12.4, and the threads of a block.
 *
 * A kernel in two launches has scratch memory between them.  All launches of
 * such kernels are on the queue of programs, so that one after the other has
 * it.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/fail.h"
#include "runtime/hal/cuda/cuda_impl.h"

enum { LOG_BYTES = 4096 };

/* ---- what the text says -------------------------------------------------- */

/* The part of a kernel's head between begin and end. */
static const char *
find_in(const char *begin, const char *end, const char *what)
{
    const char *at = strstr(begin, what);
    return at && at < end ? at : NULL;
}

/* Of ".param .u64 x" eight bytes, of ".param .align 8 .b8 x[24]" 24. */
static size_t
bytes_of_param(const char *param, const char *end)
{
    const char *size = memchr(param, '[', (size_t)(end - param));
    return size ? (size_t)strtoul(size + 1, NULL, 10) : sizeof(uint64_t);
}

static size_t
bytes_of_params(const char *at, const char *end)
{
    size_t sum = 0;
    while ((at = find_in(at, end, ".param"))) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *next = comma ? comma : end;
        sum += bytes_of_param(at, next);
        at = next;
    }
    return sum;
}

/* The parenthesis after this name of a function. */
static const char *
find_params(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, ".entry "));) {
        at += strlen(".entry ");
        if (!strncmp(at, name, n) && at[n] == '(')
            return at + n;
    }
    return NULL;
}

/* ".visible .entry NAME(params) .reqntid x, 1, 1 {". */
static bool
read_head(const char *text, const char *name, CudaKernel *k, CudaFunction *f)
{
    const char *open = find_params(text, name);
    const char *close = open ? strchr(open, ')') : NULL;
    const char *body = close ? strchr(close, '{') : NULL;
    const char *threads = body ? find_in(close, body, ".reqntid") : NULL;
    if (!threads)
        return false;
    k->param_bytes = bytes_of_params(open, close);
    f->threads = (unsigned)strtoul(threads + strlen(".reqntid"), NULL, 10);
    return f->threads && k->param_bytes <= CUDA_PARAM_BYTES;
}

/* Of a text that does not say that there are two launches: true, and nothing.
 */
static bool
read_launches(const char *text, const char *name, CudaKernel *k)
{
    long long first, rest, bytes;
    const char *at = strstr(text, TFD_LAUNCHES);
    if (!at)
        return true;
    at += strlen(TFD_LAUNCHES);
    size_t n = strlen(name);
    if (strncmp(at, name, n) ||
        sscanf(at + n, TFD_LAUNCHES_FORMAT, &first, &rest, &bytes) != 3 ||
        first < 1 || rest < 1 || bytes < 1)
        return false;
    k->first.most = first;
    k->rest.most = rest;
    k->scratch = (size_t)bytes;
    return true;
}

/* ---- loading ------------------------------------------------------------- */

/* The name of "code/sm_80/k_12ab.ptx". */
static void
name_of(const PlanObject *o, char *name, size_t n)
{
    const char *last = strrchr(o->name, '/');
    snprintf(name, n, "%s", last ? last + 1 : o->name);
    name[strcspn(name, ".")] = '\0';
}

/* In one line. */
static void
flatten(char *log)
{
    for (char *at = log; *at; at++)
        if (*at == '\n' || *at == '\r' || *at == '\t')
            *at = ' ';
    for (size_t n = strlen(log); n && log[n - 1] == ' '; n--)
        log[n - 1] = '\0';
}

static Status
refuse_ptx(const Cuda *c, const char *name, CUresult r, char *log)
{
    char text[512];
    int v = c->cu->version;
    if (r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        return status_new(STATUS_MACHINE,
                          "%s cannot run kernel %s: its PTX is newer than the "
                          "driver, which is for CUDA %d.%d; a newer driver can",
                          c->device.name, name, v / 1000, v % 1000 / 10);
    flatten(log);
    rt_cuda_explain(c->cu, "cuModuleLoadDataEx", r, text, sizeof text);
    return status_new(STATUS_MACHINE, "%s cannot run kernel %s: %s%s%s",
                      c->device.name, name, text, *log ? ": " : "", log);
}

static Status
load_module(const Cuda *c, const PlanObject *o, const char *name, CudaKernel *k)
{
    char log[LOG_BYTES] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    CUresult r =
        c->cu->cuModuleLoadDataEx(&k->module, o->bytes, 2, options, values);
    return r ? refuse_ptx(c, name, r, log) : OK;
}

static Status
not_ours(const Cuda *c, const char *name)
{
    return status_new(STATUS_INPUT,
                      "%s cannot run kernel %s: its PTX does not say how it is "
                      "launched",
                      c->device.name, name);
}

static Status
load_function(const Cuda *c, const PlanObject *o, const char *name,
              CudaKernel *k, CudaFunction *f)
{
    int most, blocks, unused;
    const char *who = c->device.name;
    if (!read_head(o->bytes, name, k, f))
        return not_ours(c, name);
    if (!k->module)
        TRY(load_module(c, o, name, k));
    TRY_CUDA(c->cu, who, cuModuleGetFunction, &f->function, k->module, name);
    TRY_CUDA(c->cu, who, cuFuncGetAttribute, &most,
             CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f->function);
    TRY_CUDA(c->cu, who, cuFuncGetAttribute, &unused,
             CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f->function);
    TRY_CUDA(c->cu, who, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks,
             f->function, (int)f->threads, 0);
    if (f->threads > (unsigned)most || blocks < 1)
        return status_new(STATUS_MACHINE,
                          "%s cannot run kernel %s: it has blocks of %u "
                          "threads, and %d fit",
                          who, name, f->threads, blocks < 1 ? 0 : most);
    f->blocks = (unsigned)blocks * (unsigned)c->num_processors;
    return OK;
}

static Status
load_kernel(const Cuda *c, const PlanObject *o, CudaKernel *k)
{
    char name[128], rest[sizeof name + sizeof TFD_REST];
    name_of(o, name, sizeof name);
    if (!read_launches(o->bytes, name, k))
        return not_ours(c, name);
    TRY(load_function(c, o, name, k, &k->first));
    if (!k->rest.most)
        return OK;
    snprintf(rest, sizeof rest, "%s%s", name, TFD_REST);
    return load_function(c, o, rest, k, &k->rest);
}

/* As much as the kernel needs that needs most. */
static Status
allocate_scratch(Cuda *c)
{
    const RtMemory *memory;
    size_t bytes = 0;
    for (int i = 0; i < c->num_kernels; i++)
        if (c->kernels[i].scratch > bytes)
            bytes = c->kernels[i].scratch;
    if (!bytes)
        return OK;
    TRY(rt_cuda_alloc(&c->device, bytes, 0, true, &memory));
    c->scratch = (CUdeviceptr)memory->address;
    return OK;
}

Status
rt_cuda_load(RtDevice *d, const RtDeviceCode *code)
{
    Cuda *c = rt_cuda_of(d);
    if (!rt_cuda_enter(c))
        return rt_device_status(d);
    int num = code->kernel_texts ? code->num_kernels : 0;
    c->code = code;
    if (num)
        c->kernels = fail_here(FAIL_ALLOC)
                         ? NULL
                         : calloc((size_t)num, sizeof *c->kernels);
    if (num && !c->kernels)
        return status_new(STATUS_MACHINE, "no memory for %d kernels of %s", num,
                          d->name);
    c->num_kernels = num;
    for (int i = 0; i < num; i++)
        TRY(load_kernel(c, &code->kernel_texts[i], &c->kernels[i]));
    return allocate_scratch(c);
}

void
rt_cuda_unload(Cuda *c)
{
    for (int i = 0; i < c->num_kernels && c->kernels[i].module; i++)
        c->cu->cuModuleUnload(c->kernels[i].module);
    free(c->kernels);
}

/* ---- launches ------------------------------------------------------------ */

static unsigned
blocks_of(const CudaFunction *f, const RtKernelLaunch *l)
{
    int64_t work = f->most ? f->most : l->count;
    return work < f->blocks ? (unsigned)work : f->blocks;
}

/* The arrays, the scratch memory if there is some, then the words. */
static void
fill_params(const Cuda *c, const CudaKernel *k, const RtKernelLaunch *l,
            char *params)
{
    size_t pointers = (size_t)l->num_ptrs * sizeof *l->ptrs;
    assert(pointers <= k->param_bytes);
    if (pointers)
        memcpy(params, l->ptrs, pointers);
    if (k->scratch) {
        memcpy(params + pointers, &c->scratch, sizeof c->scratch);
        pointers += sizeof c->scratch;
    }
    if (k->param_bytes > pointers)
        memcpy(params + pointers, l->dims, k->param_bytes - pointers);
}

static void
launch_function(Cuda *c, CudaQueue *q, const CudaFunction *f, unsigned blocks,
                void **extra)
{
    CALL_CUDA(c, cuLaunchKernel, f->function, blocks, 1, 1, f->threads, 1, 1, 0,
              q->stream, NULL, extra);
}

void
rt_cuda_launch(Cuda *c, CudaQueue *q, const RtKernelLaunch *l)
{
    char params[CUDA_PARAM_BYTES];
    assert(l->kernel >= 0 && l->kernel < c->num_kernels);
    const CudaKernel *k = &c->kernels[l->kernel];
    size_t bytes = k->param_bytes;
    if (l->count <= 0 || !rt_cuda_enter(c))
        return;
    fill_params(c, k, l, params);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    launch_function(c, q, &k->first, blocks_of(&k->first, l), extra);
    if (k->rest.function)
        launch_function(c, q, &k->rest, blocks_of(&k->rest, l), extra);
    q->has_more = true;
}
