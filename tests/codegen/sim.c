/*
 * sim.c - executes kernels that were compiled for GPUs on the CPU
 *
 * The text of a module is edited before it is compiled: address spaces go,
 * numbers of threads and blocks are read from variables here, shared memory is
 * an array here, and barriers, shuffles and copies by cp.async are calls.
 * Around the kernel's function, or two where it is launched twice, come others:
 * the one that launches, by the name of the kernel, and those that a thread is,
 * which take the parameters apart.
 */
#include "tests/codegen/sim.h"

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/llvm/target.h"
#include "ir/plan/abi.h"
#include "tests/codegen/fiber.h"

enum {
    MAX_THREADS = 1024,
    MAX_SHARED = 48 << 10,
    MAX_SCRATCH = 64 << 20, /* between two launches */
    STACK_BYTES = 64 << 10,
    NUM_BLOCKS = 2,
    RUBBISH = 0xa5
};

typedef void Thread(void *const *ptrs, const int64_t *dims);

/* ---- threads that take turns -------------------------------------------- */

static struct {
    Thread *thread;
    void *const *ptrs;
    const int64_t *dims;
    Fiber scheduler, fibers[MAX_THREADS];
    bool done[MAX_THREADS];
    bool at_barrier[MAX_THREADS]; /* else it waits for its warp, if at all */
    int32_t offered[MAX_THREADS]; /* by a shuffle */
    char *stacks;
    _Alignas(16) char shared[MAX_SHARED];
    _Alignas(16) char scratch[MAX_SCRATCH];
    /* the values of special registers */
    int32_t number, block, num_blocks;
} sim;

static void
run_thread(void)
{
    sim.thread(sim.ptrs, sim.dims);
    sim.done[sim.number] = true;
    fiber_end(&sim.fibers[sim.number], &sim.scheduler);
}

static void
wait(bool at_barrier)
{
    sim.at_barrier[sim.number] = at_barrier;
    fiber_switch(&sim.fibers[sim.number], &sim.scheduler);
}

static void
barrier(void)
{
    wait(true);
}

/* Whole warps wait, and each thread goes on once in a round. */
static void
warp_barrier(int32_t threads)
{
    (void)threads;
    wait(false);
}

static int32_t
shuffle(int32_t threads, int32_t x, int32_t distance, int32_t clamp)
{
    (void)threads;
    (void)clamp;
    sim.offered[sim.number] = x;
    wait(false);
    int32_t y = sim.offered[sim.number ^ distance];
    wait(false);
    return y;
}

#define COPY(bytes)                                                            \
    static void copy_##bytes(char *to, const char *from)                       \
    {                                                                          \
        memcpy(to, from, bytes);                                               \
    }                                                                          \
    static void copy_some_##bytes(char *to, const char *from, int32_t kept)    \
    {                                                                          \
        memset(to, 0, bytes);                                                  \
        memcpy(to, from, (size_t)kept);                                        \
    }
COPY(4)
COPY(8)
COPY(16)

static void
wait_for_copies(void)
{
}

/* Every thread that is at no barrier once, to its next wait or its end; how
 * many there were. */
static int
run_round(int num, bool backwards)
{
    int count = 0;
    for (int i = 0; i < num; i++) {
        sim.number = backwards ? num - 1 - i : i;
        if (sim.done[sim.number] || sim.at_barrier[sim.number])
            continue;
        fiber_switch(&sim.scheduler, &sim.fibers[sim.number]);
        count++;
    }
    return count;
}

/* When all threads wait at a barrier they go on; returns whether there are
 * any. */
static bool
pass_barrier(int num)
{
    int ended = 0;
    for (int i = 0; i < num; i++) {
        sim.at_barrier[i] = false;
        ended += sim.done[i];
    }
    if (ended && ended < num) {
        fprintf(stderr, "a barrier that only some threads reach\n");
        abort();
    }
    return ended < num;
}

static void
run_fibers(int num)
{
    if (!sim.stacks)
        sim.stacks = aligned_alloc(64, (size_t)MAX_THREADS * STACK_BYTES);
    for (int i = 0; i < num; i++) {
        sim.done[i] = sim.at_barrier[i] = false;
        fiber_start(&sim.fibers[i], sim.stacks + (size_t)i * STACK_BYTES,
                    STACK_BYTES, run_thread);
    }
    int round = 0;
    do {
        while (run_round(num, round % 2))
            round++;
    } while (pass_barrier(num));
}

/* Called by the code that is compiled here. */
static void
launch(Thread *thread, void *const *ptrs, const int64_t *dims, int64_t begin,
       int64_t threads, int64_t barriers)
{
    if (begin)
        return;
    sim.thread = thread;
    sim.ptrs = ptrs;
    sim.dims = dims;
    sim.num_blocks = NUM_BLOCKS;
    for (sim.block = 0; sim.block < NUM_BLOCKS; sim.block++) {
        memset(sim.shared, RUBBISH, sizeof sim.shared);
        if (barriers) {
            run_fibers((int)threads);
            continue;
        }
        for (sim.number = 0; sim.number < threads; sim.number++)
            thread(ptrs, dims);
    }
}

/* ---- the text ----------------------------------------------------------- */

static const char *
replace(Arena *a, const char *text, const char *from, const char *to)
{
    Str s = str_new(a);
    for (const char *at; (at = strstr(text, from));) {
        str_addn(&s, text, (size_t)(at - text));
        str_add(&s, to);
        text = at + strlen(from);
    }
    str_add(&s, text);
    return str_text(&s);
}

/* Without the lines in which `what` occurs. */
static const char *
drop_lines(Arena *a, const char *text, const char *what)
{
    Str s = str_new(a);
    while (*text) {
        size_t len = strcspn(text, "\n");
        len += text[len] == '\n';
        if (!memmem(text, len, what, strlen(what)))
            str_addn(&s, text, len);
        text += len;
    }
    return str_text(&s);
}

static const char *
at_address(Arena *a, const void *p)
{
    return arena_printf(a, "inttoptr (i64 %lld to ptr)",
                        (long long)(intptr_t)p);
}

static const char *
read_special(Arena *a, const char *text, const char *name, const int32_t *from)
{
    const char *call =
        arena_printf(a, "call i32 @llvm.nvvm.read.ptx.sreg.%s.x()", name);
    return replace(a, text, call,
                   arena_printf(a, "load i32, ptr %s", at_address(a, from)));
}

/* What a kernel's text says of its functions. */
typedef struct Functions {
    int num; /* 1 or 2 */
    int threads[2];
    bool barriers[2];
} Functions;

static const char *
suffix_of(int function)
{
    return function ? TFD_REST : "";
}

/* Parameter number i of those of the kernel's function. */
static void
add_argument(Str *s, const BeKernel *k, int arrays, int i, bool has_scratch)
{
    if (!k->segments.len)
        str_addf(s, "%s%s %%p%d", i ? ", " : "", i < arrays ? "ptr" : "i64", i);
    else if (i == 0)
        str_addf(s, "ptr byval([%d x ptr]) align 1 %%ptrs", arrays);
    else if (i >= arrays)
        str_addf(s, ", i64 %%p%d", i);
    if (has_scratch && i == arrays - 1)
        str_addf(s, ", ptr %s", at_address(s->arena, sim.scratch));
}

static void
add_thread(Str *s, const BeKernel *k, int function, bool has_scratch)
{
    int arrays = k->arrays[K_IN].len + k->arrays[K_OUT].len;
    int words = be_kernel_replica_word(k) + k->uses_replica;
    str_addf(s, "\ndefine internal void @thread%d(ptr %%ptrs, ptr %%dims) {\n",
             function);
    for (int i = 0; i < arrays + words; i++) {
        const char *type = i < arrays ? "ptr" : "i64";
        str_addf(s, "  %%a%d = getelementptr i64, ptr %%%s, i64 %d\n", i,
                 i < arrays ? "ptrs" : "dims", i < arrays ? i : i - arrays);
        str_addf(s, "  %%p%d = load %s, ptr %%a%d\n", i, type, i);
    }
    str_addf(s, "  call void @kernel%s(", suffix_of(function));
    for (int i = 0; i < arrays + words; i++)
        add_argument(s, k, arrays, i, has_scratch);
    str_add(s, ")\n  ret void\n}\n");
}

static void
add_launches(Str *s, Arena *a, const BeKernel *k, const Functions *f)
{
    for (int i = 0; i < f->num; i++)
        add_thread(s, k, i, f->num > 1);
    str_addf(
        s,
        "\ndefine void @%s(ptr %%ptrs, ptr %%dims, i64 %%begin, i64 %%end) {\n",
        k->name);
    for (int i = 0; i < f->num; i++)
        str_addf(s,
                 "  call void %s(ptr @thread%d, ptr %%ptrs, ptr %%dims, i64 "
                 "%%begin, i64 %d, i64 %d)\n",
                 at_address(a, (const void *)(uintptr_t)launch), i,
                 f->threads[i], f->barriers[i]);
    str_add(s, "  ret void\n}\n");
}

/* cp.async, as calls. */
static const char *
copy_at_once(Arena *a, const char *text)
{
    const struct {
        const char *name;
        uintptr_t by;
    } calls[] = {
        {"ca.shared.global.4", (uintptr_t)copy_4},
        {"ca.shared.global.4.s", (uintptr_t)copy_some_4},
        {"ca.shared.global.8", (uintptr_t)copy_8},
        {"ca.shared.global.8.s", (uintptr_t)copy_some_8},
        {"cg.shared.global.16", (uintptr_t)copy_16},
        {"cg.shared.global.16.s", (uintptr_t)copy_some_16},
        {"wait.all", (uintptr_t)wait_for_copies},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const char *name =
            arena_printf(a, "@llvm.nvvm.cp.async.%s(", calls[i].name);
        const void *here = (const void *)calls[i].by;
        text =
            replace(a, text, name, arena_printf(a, "%s(", at_address(a, here)));
    }
    return text;
}

/* Annotations are in the order of the functions. */
static Functions
functions_of(const BeKernel *k, const char *text)
{
    static const char *const waits[] = {
        "call void @llvm.nvvm.barrier0()",
        "call void @llvm.nvvm.bar.warp.sync(",
        "call i32 @llvm.nvvm.shfl.sync.bfly.i32("};
    static const char key[] = "\"reqntidx\", i32 ";
    char head[256];
    Functions f = {0};
    for (const char *at = text; f.num < 2 && (at = strstr(at, key));) {
        at += sizeof key - 1;
        f.threads[f.num++] = atoi(at);
    }
    for (int i = 0; i < f.num; i++) {
        snprintf(head, sizeof head, "@%s%s(", k->name, suffix_of(i));
        const char *begin = strstr(text, head), *end = strstr(begin, "\n}\n");
        for (int n = 0; n < 3; n++)
            f.barriers[i] |= memmem(begin, (size_t)(end - begin), waits[n],
                                    strlen(waits[n])) != NULL;
    }
    return f;
}

/* Shared memory, by what is here. */
static const char *
without_machine(Arena *a, const BeKernel *k, const char *text)
{
    const char *shared = arena_printf(a, "@%s_shared", k->name);
    text = drop_lines(a, text, "declare i32 @llvm.nvvm");
    text = drop_lines(a, text, "declare void @llvm.nvvm");
    text = drop_lines(a, text, "target triple");
    text = drop_lines(a, text, "module asm");
    text = drop_lines(a, text, "nvvm.annotations");
    text = drop_lines(a, text, "\"reqntidx\"");
    text = drop_lines(a, text, "\"minctasm\"");
    text = drop_lines(a, text, arena_printf(a, "%s = internal", shared));
    text = replace(a, text, shared, at_address(a, sim.shared));
    text = replace(a, text, "addrspace(1) ", "");
    text = replace(a, text, "addrspace(3) ", "");
    text = replace(a, text, " addrspace(1)", "");
    text = replace(a, text, " addrspace(3)", "");
    /* The arrays of tests are aligned to their elements alone. */
    text = replace(a, text, ", align 16", ", align 1");
    return replace(a, text, ", align 8", ", align 1");
}

static const char *
edited(Arena *a, const BeKernel *k, const char *text)
{
    Functions f = functions_of(k, text);
    const char *wait = "call void @llvm.nvvm.barrier0()";
    const char *warp_wait = "call void @llvm.nvvm.bar.warp.sync(";
    const char *swap = "call i32 @llvm.nvvm.shfl.sync.bfly.i32(";
    text = without_machine(a, k, text);
    text = replace(a, text, "define ptx_kernel", "define internal");
    for (int i = 0; i < f.num; i++)
        text =
            replace(a, text, arena_printf(a, "@%s%s(", k->name, suffix_of(i)),
                    arena_printf(a, "@kernel%s(", suffix_of(i)));
    text = read_special(a, text, "tid", &sim.number);
    text = read_special(a, text, "ctaid", &sim.block);
    text = read_special(a, text, "nctaid", &sim.num_blocks);
    const void *here = (const void *)(uintptr_t)barrier;
    text = replace(a, text, wait,
                   arena_printf(a, "call void %s()", at_address(a, here)));
    here = (const void *)(uintptr_t)warp_barrier;
    text = replace(a, text, warp_wait,
                   arena_printf(a, "call void %s(", at_address(a, here)));
    here = (const void *)(uintptr_t)shuffle;
    text = replace(a, text, swap,
                   arena_printf(a, "call i32 %s(", at_address(a, here)));
    text = copy_at_once(a, text);
    Str s = str_new(a);
    str_add(&s, text);
    add_launches(&s, a, k, &f);
    return str_text(&s);
}

/* ---- compiling ---------------------------------------------------------- */

static void
must(Status st)
{
    if (st) {
        status_report(st, "sim", stderr);
        exit(1);
    }
}

static void
must_not(bool failed, const char *why)
{
    if (failed) {
        fprintf(stderr, "sim: %s\n", why);
        exit(1);
    }
}

static PlanObject
compile(Arena *a, const char *name, const char *text,
        LLVMTargetMachineRef machine)
{
    char *message = NULL;
    LLVMContextRef cx = LLVMContextCreate();
    LLVMModuleRef module;
    LLVMMemoryBufferRef in =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), name);
    must_not(LLVMParseIRInContext(cx, in, &module, &message), message);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
    LLVMMemoryBufferRef out;
    must_not(LLVMTargetMachineEmitToMemoryBuffer(
                 machine, module, LLVMObjectFile, &message, &out),
             message);
    size_t size = LLVMGetBufferSize(out);
    PlanObject object = {name, arena_copy(a, LLVMGetBufferStart(out), size),
                         size};
    LLVMDisposeMemoryBuffer(out);
    LLVMDisposeModule(module);
    LLVMContextDispose(cx);
    return object;
}

RtCode *
sim_compile(const BeKernels *kernels, const char *gpu)
{
    Arena *a = arena_new(NULL, "sim");
    const BeTarget *here;
    int num;
    must(be_targets_parse(a, "native", &here, &num));
    LLVMTargetMachineRef machine = be_target_open(here, 0);
    PlanObject *objects = NEW_ARRAY(a, PlanObject, (size_t)kernels->len + 1);
    for (int i = 0; i < kernels->len; i++) {
        BeKernel *k = kernels->data[i];
        BeKernels one = {.data = &k, .len = 1, .cap = 1};
        BeOptions options = {.targets = gpu, .cache = "", .verify = true};
        Str text = str_new(a);
        must(be_print_llvm(&text, NULL, &one, &options));
        objects[i] =
            compile(a, k->name, edited(a, k, str_text(&text)), machine);
    }
    be_target_close(machine);
    RtCode *linked;
    must(rt_code_open(objects, kernels->len, &linked));
    arena_release(a);
    return linked;
}
