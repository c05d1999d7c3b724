/*
 * code.c - modules, functions and launches
 */
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/calls.h"

enum {
    MOST_THREADS = 1024, /* of a block */
    STATIC_SHARED = 48 << 10,
    USUAL_SHARED = 48 << 10, /* of a block; more needs leave */
    PARAM_BYTES = 0x1100
};

/* ---- code ---------------------------------------------------------------- */

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
    out->serial = ++fake_world.serials;
    out->context = fake_current;
    out->next = fake_world.modules;
    fake_world.modules = out;
    out->module = m;
    fake_current->device->modules++;
    *module = out;
    return CUDA_SUCCESS;
}

EXPORT
cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, module->context, "a module");
    const PtxKernel *kernel = ptx_module_find(module->module, name);
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    CUfunction f = fake_alloc(sizeof *f);
    *f = (struct CUfunc_st){.module = module,
                            .kernel = kernel,
                            .name = fake_keep(ptx_kernel_info(kernel)->name),
                            .next = module->functions};
    *function = module->functions = f;
    return CUDA_SUCCESS;
}

static bool
uses_module(const Op *op, const void *data)
{
    return op->uses.module == ((const struct CUmod_st *)data)->serial;
}

static void
forget_module(CUmodule module)
{
    struct CUmod_st **at = &fake_world.modules;
    while (*at != module)
        at = &(*at)->next;
    *at = module->next;
}

EXPORT
cuModuleUnload(CUmodule module)
{
    ENTER(GIVES_BACK);
    fake_check_context(__func__, module->context, "a module");
    if (fake_is_pending(uses_module, module) && !fake_may_leave_work())
        fake_complain("%s of a module whose kernels have yet to run", __func__);
    forget_module(module);
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
    function->is_loaded = true;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        *value = (int)threads_of(info);
    else if (attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        *value = (int)info->static_shared;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* CUDA C++ Programming Guide, "Technical Specifications per Compute
 * Capability".
 */
int
fake_most_shared(void)
{
    int capability = fake_world.options.capability;
    if (capability == 80 || capability == 87)
        return 163 << 10;
    if (capability >= 90 && capability < 120)
        return 227 << 10;
    return 99 << 10; /* 8.6, 8.9, 12.0 */
}

EXPORT
cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                   int value)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, function->module->context, "a function");
    const PtxKernelInfo *info = ptx_kernel_info(function->kernel);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
        value < 0 || value > fake_most_shared() - (int)info->static_shared)
        return CUDA_ERROR_INVALID_VALUE;
    function->dynamic_shared = (unsigned)value;
    function->is_loaded = true;
    return CUDA_SUCCESS;
}

EXPORT
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                            int threads, size_t shared)
{
    ENTER(CONTEXT);
    const PtxKernelInfo *info = ptx_kernel_info(function->kernel);
    function->is_loaded = true;
    size_t bytes = info->static_shared + shared;
    int resident = fake_world.options.threads;
    int by_shared =
        bytes ? (int)((size_t)fake_most_shared() / bytes) : resident;
    int by_threads = resident / (threads > 0 ? threads : 1);
    *blocks = by_shared < by_threads ? by_shared : by_threads;
    return CUDA_SUCCESS;
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
check_launch(CUfunction function, const unsigned *grid, const unsigned *block,
             unsigned shared, size_t bytes)
{
    const PtxKernelInfo *info = ptx_kernel_info(function->kernel);
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > INT32_MAX ||
        grid[1] > UINT16_MAX || grid[2] > UINT16_MAX || threads == 0 ||
        threads > MOST_THREADS || bytes > PARAM_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (info->static_shared + shared > USUAL_SHARED &&
        shared > function->dynamic_shared)
        return CUDA_ERROR_INVALID_VALUE;
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
    fake_check_context(__func__, function->module->context, "a function");
    if (params || read_extra(extra, &block, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream && stream->capture && !function->is_loaded)
        fake_complain("%s is launched for the first time in a capture, where "
                      "it cannot be loaded",
                      info->name);
    Op op = {.kind = OP_KERNEL,
             .module = function->module,
             .kernel = function->kernel,
             .grid = {grid_x, grid_y, grid_z},
             .block = {block_x, block_y, block_z},
             .shared = shared};
    CUresult wrong = check_launch(function, op.grid, op.block, shared, bytes);
    if (wrong)
        return wrong;
    op.params = fake_alloc(bytes);
    if (bytes)
        memcpy(op.params, block, bytes);
    function->is_loaded = true;
    return fake_enqueue(function->name, stream, op);
}
