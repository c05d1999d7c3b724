/*
 * direct.c - calls of the CUDA driver without the runtime, for tests
 */
#include "tests/cuda/direct.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char direct_add[] = ".version 7.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".visible .entry k_add(\n"
                          "  .param .u64 k_add_param_0,\n"
                          "  .param .u64 k_add_param_1\n"
                          ")\n"
                          ".reqntid 64, 1, 1\n"
                          "{\n"
                          "  .reg .pred %p<3>;\n"
                          "  .reg .b32 %r<8>;\n"
                          "  .reg .b64 %rd<6>;\n"
                          "  ld.param.u64 %rd1, [k_add_param_0];\n"
                          "  ld.param.u64 %rd2, [k_add_param_1];\n"
                          "  cvta.to.global.u64 %rd3, %rd1;\n"
                          "  cvt.u32.u64 %r1, %rd2;\n"
                          "  mov.u32 %r2, %ctaid.x;\n"
                          "  mov.u32 %r3, %tid.x;\n"
                          "  mad.lo.s32 %r4, %r2, 64, %r3;\n"
                          "  mov.u32 %r5, %nctaid.x;\n"
                          "  mul.lo.s32 %r5, %r5, 64;\n"
                          "L1:\n"
                          "  setp.ge.s32 %p1, %r4, 1000;\n"
                          "  @%p1 bra L2;\n"
                          "  mul.wide.s32 %rd4, %r4, 4;\n"
                          "  add.s64 %rd5, %rd3, %rd4;\n"
                          "  ld.global.u32 %r6, [%rd5];\n"
                          "  add.s32 %r6, %r6, %r1;\n"
                          "  st.global.u32 [%rd5], %r6;\n"
                          "  add.s32 %r4, %r4, %r5;\n"
                          "  bra.uni L1;\n"
                          "L2:\n"
                          "  ret;\n"
                          "}\n";

const CudaDriver *cu;
CUstream one, two;
CUevent event;
CUdeviceptr memory;
char *pinned;

CUcontext
direct_enter(int device)
{
    CUcontext context;
    MUST(cu->cuDevicePrimaryCtxRetain(&context, device));
    MUST(cu->cuCtxSetCurrent(context));
    return context;
}

void
direct_prepare(const char *options)
{
    void *at;
    setenv("TFD_FAKE_CUDA", options, 1);
    assert_null(rt_cuda_driver_open("cuda:0", &cu));
    direct_enter(0);
    MUST(cu->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    MUST(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu->cuMemAlloc_v2(&memory, DIRECT_BYTES));
    MUST(cu->cuMemHostAlloc(&at, DIRECT_BYTES, 0));
    pinned = at;
}

void
direct_release(void)
{
    MUST(cu->cuStreamDestroy_v2(one));
    MUST(cu->cuStreamDestroy_v2(two));
    MUST(cu->cuEventDestroy_v2(event));
    MUST(cu->cuMemFree_v2(memory));
    MUST(cu->cuMemFreeHost(pinned));
    MUST(cu->cuDevicePrimaryCtxRelease_v2(0));
}

void
direct_finish(CUstream stream)
{
    MUST(cu->cuEventRecord(event, stream));
    while (cu->cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
}

CUfunction
direct_load(CUmodule *module)
{
    CUfunction add;
    MUST(cu->cuModuleLoadDataEx(module, direct_add, 0, NULL, NULL));
    MUST(cu->cuModuleGetFunction(&add, *module, "k_add"));
    return add;
}

CUresult
direct_launch(CUfunction add, CUdeviceptr at, uint64_t n, CUstream stream)
{
    uint64_t params[] = {at, n};
    size_t bytes = sizeof params;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    return cu->cuLaunchKernel(add, 4, 1, 1, 64, 1, 1, 0, stream, NULL, extra);
}

void
assert_dies(void (*f)(void), int signal_number, const char *says)
{
    int ends[2], status;
    char text[2048] = "";
    size_t len = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        direct_prepare("devices:2");
        f();
        if (!signal_number)
            exit(0); /* what it prints then is wanted */
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; len < sizeof text - 1 &&
                    (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!strstr(text, says))
        fail_msg("\"%s\" is not in \"%s\"", says, text);
    bool by_signal =
        signal_number ? WIFSIGNALED(status) && WTERMSIG(status) == signal_number
                      : status == 0;
    bool by_sanitizer = signal_number == SIGSEGV && status != 0;
    if (!by_signal && !by_sanitizer)
        fail_msg("no complaint \"%s\": status %d", says, status);
}
