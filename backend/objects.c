/*
 * objects.c - compiles units of code to relocatable objects, in parallel
 *
 * Workers take jobs off a common counter; each has its own machines, arena and,
 * for every job, its own context, so that the bytes of an object do not depend
 * on the worker or the order (D14, D15).  Results are copied out when all are
 * done.
 *
 * LLVM ends the process on a fatal error.  Our handler first reports the
 * kernel, and memory_purpose does so when LLVM gets no memory (D15).
 */
#include "backend/objects.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/ErrorHandling.h>
#include "ir/base/clock.h"
#include "ir/base/memory.h"
#include "ir/base/thread.h"

enum { MAX_THREADS = 64 };

static _Thread_local const char *current = "";

static void
on_fatal_error(const char *reason)
{
    fatal_error(STATUS_INPUT, "LLVM cannot compile %s: %s", current, reason);
}

static void
install_handler(void)
{
    LLVMInstallFatalErrorHandler(on_fatal_error);
}

static void
on_diagnostic(LLVMDiagnosticInfoRef info, void *data)
{
    (void)data;
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError)
        on_fatal_error(LLVMGetDiagInfoDescription(info));
}

/* ---- one job ------------------------------------------------------------ */

/* Sets the purpose of the thread's allocations; returns the previous one. */
static const char *
purpose(Arena *a, const BeJob *job)
{
    return memory_purpose(arena_printf(a, "LLVM, compiling %s", job->name));
}

/* The job's module, built and checked, in u (to be closed either way).  Names
 * are for text. */
static Status
build(const BeJob *job, bool verify, bool named, BeUnit *u)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_handler);
    current = job->name;
    be_unit_open(u, job->name, named);
    LLVMContextSetDiagnosticHandler(u->context, on_diagnostic, NULL);
    TRY(job->emit(u, job->what, job->target));
    char *wrong = verify ? be_unit_verify(u) : NULL;
    if (wrong)
        UNREACHABLE("bad code for %s: %s", job->name, wrong);
    return OK;
}

/* LLVM's buffer, which is released, in a. */
static const void *
take_buffer(Arena *a, LLVMMemoryBufferRef buffer, size_t *size)
{
    *size = LLVMGetBufferSize(buffer);
    char *bytes = arena_alloc(a, *size + 1);
    memcpy(bytes, LLVMGetBufferStart(buffer), *size);
    LLVMDisposeMemoryBuffer(buffer);
    return bytes;
}

/* Runs the code generator of machine over u; the bytes are in a. */
static const void *
generate(Arena *a, BeUnit *u, LLVMTargetMachineRef machine,
         LLVMCodeGenFileType type, size_t *size)
{
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(u->module, layout);
    LLVMDisposeTargetData(layout);
    char *message = NULL;
    LLVMMemoryBufferRef buffer;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, u->module, type, &message,
                                            &buffer))
        on_fatal_error(message);
    return take_buffer(a, buffer, size);
}

/* ---- workers ------------------------------------------------------------ */

/* Jobs, and who has begun which. */
typedef struct Shop {
    BeJob *jobs;
    const int *order; /* in which they are begun, by number */
    int num;
    const BeObjectOptions *options;
    atomic_int next;
} Shop;

/* Its machines, by the level, are for one target; a tiny kernel takes less time
 * than making one. */
typedef struct Worker {
    Shop *shop;
    Arena *arena;
    const BeTarget *target;
    LLVMTargetMachineRef machines[BE_NUM_LEVELS]; /* NULL: not made */
    pthread_t thread;
    bool started;
} Worker;

static void
close_machines(Worker *w)
{
    for (int i = 0; i < BE_NUM_LEVELS; i++) {
        if (w->machines[i])
            be_target_close(w->machines[i]);
        w->machines[i] = NULL;
    }
}

static LLVMTargetMachineRef
machine_for(Worker *w, const BeJob *job)
{
    if (w->target != job->target)
        close_machines(w);
    w->target = job->target;
    LLVMTargetMachineRef *machine = &w->machines[job->level];
    if (!*machine)
        *machine = be_target_open(job->target, job->level);
    return *machine;
}

static BeCacheKey
key_of_module(Worker *w, const BeJob *job, const BeUnit *u)
{
    size_t size;
    const void *bitcode =
        take_buffer(w->arena, LLVMWriteBitcodeToMemoryBuffer(u->module), &size);
    return be_cache_module_key(w->shop->options->cache, bitcode, size,
                               job->target->name, job->level);
}

static void
generate_object(Worker *w, BeJob *job, BeUnit *u)
{
    LLVMCodeGenFileType type =
        job->target->gpu ? LLVMAssemblyFile : LLVMObjectFile;
    job->object = generate(w->arena, u, machine_for(w, job), type, &job->size);
}

/* The object of the module, which another build of the compiler may have left
 * in the cache. */
static void
find_or_generate(Worker *w, BeJob *job, BeUnit *u)
{
    const BeCache *cache = w->shop->options->cache;
    if (!cache || !be_cache_has_modules(cache)) {
        generate_object(w, job, u);
        return;
    }
    BeCacheKey key = key_of_module(w, job, u);
    job->cached = be_cache_get(cache, key, w->arena, &job->object, &job->size);
    if (job->cached)
        return;
    generate_object(w, job, u);
    be_cache_put(cache, key, job->object, job->size);
}

static Status
compile(Worker *w, BeJob *job)
{
    BeUnit u;
    Status st = build(job, w->shop->options->verify, false, &u);
    if (!st)
        find_or_generate(w, job, &u);
    be_unit_close(&u);
    return st;
}

static void
make(Worker *w, BeJob *job)
{
    Arena *a = w->arena;
    double start = clock_seconds();
    const char *before = purpose(a, job);
    const BeObjectOptions *options = w->shop->options;
    const BeCache *cache = options->by_module ? NULL : options->cache;
    BeCacheKey key = {0, 0};
    if (cache) {
        key = be_cache_key(cache, job->text, job->text_len, job->target->name,
                           job->level);
        job->cached = be_cache_get(cache, key, a, &job->object, &job->size);
    }
    if (!job->cached) {
        job->status = compile(w, job);
        if (!job->status && cache)
            be_cache_put(cache, key, job->object, job->size);
    }
    job->seconds = clock_seconds() - start;
    memory_purpose(before);
}

static void *
work(void *data)
{
    Worker *w = data;
    Shop *shop = w->shop;
    for (;;) {
        int i = atomic_fetch_add(&shop->next, 1);
        if (i >= shop->num)
            return NULL;
        make(w, &shop->jobs[shop->order[i]]);
    }
}

static int
num_workers(int wanted, int num_jobs)
{
    if (!wanted)
        wanted = num_cores();
    if (wanted > MAX_THREADS)
        wanted = MAX_THREADS;
    return wanted < num_jobs ? wanted : num_jobs;
}

/* The calling thread is the first worker; a worker whose thread cannot be
 * started is skipped. */
static void
work_all(Worker *workers, int num)
{
    for (int i = 1; i < num; i++)
        workers[i].started =
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
    work(&workers[0]);
    for (int i = 1; i < num; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    }
}

/* ---- all jobs ----------------------------------------------------------- */

/* Moves results to a; the first failure is returned, others are dropped. */
static Status
collect(Arena *a, BeJob *jobs, int num)
{
    Status first = OK;
    for (int i = 0; i < num; i++) {
        if (jobs[i].object)
            jobs[i].object = arena_copy(a, jobs[i].object, jobs[i].size);
        if (!first)
            first = jobs[i].status;
        else
            status_free(jobs[i].status);
        jobs[i].status = OK;
    }
    return first;
}

/* Expensive jobs first, so that no worker is left with one while the others
 * have none. */
static const int *
order_of(Arena *a, const BeJob *jobs, int num)
{
    int *order = NEW_ARRAY(a, int, (size_t)num), most = 0, count = 0;
    for (int i = 0; i < num; i++)
        most = jobs[i].expensive > most ? jobs[i].expensive : most;
    for (int e = most; e >= 0; e--)
        for (int i = 0; i < num; i++)
            if (jobs[i].expensive == e)
                order[count++] = i;
    return order;
}

/* Jobs that LLVM's options for a process suit alike. */
static Status
make_alike(Arena *a, BeJob *jobs, int num, const BeObjectOptions *options)
{
    Shop shop = {.jobs = jobs, .num = num, .options = options};
    shop.order = order_of(a, jobs, num);
    int count = num_workers(options->num_threads, num);
    Worker workers[MAX_THREADS] = {0};
    be_target_configure(jobs[0].target);
    for (int i = 0; i < count; i++)
        workers[i] =
            (Worker){.shop = &shop, .arena = arena_new(NULL, "worker")};
    work_all(workers, count);
    Status st = collect(a, jobs, num);
    for (int i = 0; i < count; i++) {
        close_machines(&workers[i]);
        arena_release(workers[i].arena);
    }
    return st;
}

/* How many of the first jobs are for the same kind of machine. */
static int
num_alike(const BeJob *jobs, int num)
{
    int i = 1;
    while (i < num && jobs[i].target->gpu == jobs[0].target->gpu)
        i++;
    return i;
}

Status
be_objects_make(Arena *a, BeJob *jobs, int num, const BeObjectOptions *options)
{
    for (int i = 0, alike; i < num; i += alike) {
        alike = num_alike(jobs + i, num - i);
        TRY(make_alike(a, jobs + i, alike, options));
    }
    return OK;
}

/* ---- as text ------------------------------------------------------------ */

Status
be_job_llvm(Arena *a, const BeJob *job, const char **text)
{
    BeUnit u;
    const char *before = purpose(a, job);
    Status st = build(job, true, true, &u);
    if (!st) {
        char *printed = be_unit_text(&u);
        *text = arena_strdup(a, printed);
        LLVMDisposeMessage(printed);
    }
    be_unit_close(&u);
    memory_purpose(before);
    return st;
}

Status
be_job_asm(Arena *a, const BeJob *job, const char **text)
{
    BeUnit u;
    const char *before = purpose(a, job);
    Status st = build(job, true, true, &u);
    if (!st) {
        be_target_configure(job->target);
        LLVMTargetMachineRef machine = be_target_open(job->target, job->level);
        LLVMSetTargetMachineAsmVerbosity(machine, 1);
        size_t size;
        *text = generate(a, &u, machine, LLVMAssemblyFile, &size);
        be_target_close(machine);
    }
    be_unit_close(&u);
    memory_purpose(before);
    return st;
}
