/*
 * code.c - the plan's kernels on a GPU
 *
 * The driver compiles each kernel's PTX when it is loaded, and all functions
 * are asked for then: what is loaded lazily might wait for the device in the
 * midst of a step.  The text says how many bytes of parameters a kernel has,
 * which the driver does not tell before CUDA 12.4, and the threads of a block.
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

/* ".visible .entry NAME(params) .reqntid x, 1, 1 {". */
static bool
read_head(const char *text, const char *name, CudaKernel *k)
{
    const char *at = strstr(text, ".entry");
    at = at ? strstr(at, name) : NULL;
    const char *open = at ? strchr(at, '(') : NULL;
    const char *close = open ? strchr(open, ')') : NULL;
    const char *body = close ? strchr(close, '{') : NULL;
    const char *threads = body ? find_in(close, body, ".reqntid") : NULL;
    if (!threads)
        return false;
    k->param_bytes = bytes_of_params(open, close);
    k->threads = (unsigned)strtoul(threads + strlen(".reqntid"), NULL, 10);
    return k->threads && k->param_bytes <= CUDA_PARAM_BYTES;
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
load_kernel(const Cuda *c, const PlanObject *o, CudaKernel *k)
{
    char name[128];
    int most, blocks, unused;
    const char *who = c->device.name;
    name_of(o, name, sizeof name);
    if (!read_head(o->bytes, name, k))
        return status_new(STATUS_INPUT,
                          "%s cannot run kernel %s: its PTX does not say how "
                          "it is launched",
                          who, name);
    TRY(load_module(c, o, name, k));
    TRY_CUDA(c->cu, who, cuModuleGetFunction, &k->function, k->module, name);
    TRY_CUDA(c->cu, who, cuFuncGetAttribute, &most,
             CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k->function);
    TRY_CUDA(c->cu, who, cuFuncGetAttribute, &unused,
             CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, k->function);
    TRY_CUDA(c->cu, who, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks,
             k->function, (int)k->threads, 0);
    if (k->threads > (unsigned)most || blocks < 1)
        return status_new(STATUS_MACHINE,
                          "%s cannot run kernel %s: it has blocks of %u "
                          "threads, and %d fit",
                          who, name, k->threads, blocks < 1 ? 0 : most);
    k->blocks = (unsigned)blocks * (unsigned)c->num_processors;
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
    return OK;
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
blocks_of(const CudaKernel *k, const RtKernelLaunch *l)
{
    return l->count < k->blocks ? (unsigned)l->count : k->blocks;
}

void
rt_cuda_launch(Cuda *c, CudaQueue *q, const RtKernelLaunch *l)
{
    char params[CUDA_PARAM_BYTES];
    assert(l->kernel >= 0 && l->kernel < c->num_kernels);
    const CudaKernel *k = &c->kernels[l->kernel];
    size_t pointers = (size_t)l->num_ptrs * sizeof *l->ptrs;
    size_t bytes = k->param_bytes;
    assert(pointers <= bytes);
    if (l->count <= 0 || !rt_cuda_enter(c))
        return;
    if (pointers)
        memcpy(params, l->ptrs, pointers);
    if (bytes > pointers)
        memcpy(params + pointers, l->dims, bytes - pointers);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CALL_CUDA(c, cuLaunchKernel, k->function, blocks_of(k, l), 1, 1, k->threads,
              1, 1, 0, q->stream, NULL, extra);
    q->has_more = true;
}
