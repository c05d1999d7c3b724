/*
 * backend.c - from a placed program to the code of its plan
 *
 * A job is one module of LLVM: the program's functions, or one kernel (D15).
 * There is one of each for every target.  A kernel's job depends on its text
 * alone, the functions' job on the text of the placed program: so both can be
 * cached.
 */
#include "backend/backend.h"

#include <string.h>
#include "backend/codegen/emit.h"
#include "backend/cpu/cpu_kernel.h"
#include "backend/host/host_code.h"
#include "backend/objects.h"
#include "backend/ptx/ptx.h"
#include "ir/base/io/limit.h"
#include "ir/device/device.h"
#include "ir/plan/target.h"
#include "ir/text/calls.h"
#include "ir/text/text.h"

#define HOST_OBJECT "host"

/* ---- which targets ------------------------------------------------------- */

/* This machine, and the most machines of each other kind that the program's
 * devices are of. */
static const char *
usual_targets(Arena *a, const IrModule *m)
{
    Str s = str_new(a);
    str_add(&s, "native");
    for (int i = 0; i < NUM_DEVICE_KINDS; i++) {
        const TargetFormat *format = &target_formats[i];
        if (format->extension && !format->hosts &&
            ir_devices_have(m->devices, (IrDeviceKind)i))
            str_addf(&s, ",%s", target_least((IrDeviceKind)i)->name);
    }
    return str_text(&s);
}

/* A machine that executes other code than the host's, which then enqueues its
 * work; NULL: there is none. */
static const BeTarget *
find_other_code(const BeTarget *targets, int num)
{
    for (int i = 0; i < num; i++)
        if (!target_formats[targets[i].device].hosts)
            return &targets[i];
    return NULL;
}

/* Of a list that is wrong be_compile says so. */
static const BeTarget *
other_code_of(Arena *a, const IrModule *m, const char *list)
{
    const BeTarget *targets;
    int num;
    Status st =
        be_targets_parse(a, list ? list : usual_targets(a, m), &targets, &num);
    if (st) {
        status_free(st);
        return NULL;
    }
    return find_other_code(targets, num);
}

/* ---- kernels ------------------------------------------------------------ */

typedef struct Build {
    Arena *arena;
    BeKernels kernels;
    Map *by_name;
    const BeTarget *gpu; /* NULL: there is none among the targets */
    Diag *diag;
    /* If there is one operands of all_reduces are combined by kernels, too, of
     * these names. */
    const char *combined[NUM_AGGS][NUM_DTYPES];
    bool failed;
    bool stopped; /* there are too many: stop here */
} Build;

static void
refuse_number(Build *b, const IrOp *op)
{
    const char *note = limit_note(b->arena, LIMIT_kernels);
    diag_error(b->diag, op->loc, "%s", limit_message(b->arena, LIMIT_kernels));
    if (note)
        diag_note(b->diag, op->loc, "%s", note);
    b->failed = b->stopped = true;
}

/* Equal kernels are one object. */
static void
add_kernel(Build *b, const IrOp *op, BeKernel *k)
{
    if (map_get(b->by_name, k->name))
        return;
    if (b->kernels.len == limit_value(LIMIT_kernels))
        refuse_number(b, op);
    map_set(b->by_name, k->name, k);
    VEC_PUSH(b->arena, b->kernels, k);
}

/* The memory that a GPU needs for the kernel's parts. */
static void
note_scratch(const Build *b, IrOp *op, const BeKernel *k)
{
    bool may_split = b->gpu && (be_kernel_contains(&k->body, K_CONTRACT) ||
                                be_kernel_contains(&k->body, K_REDUCE));
    int64_t bytes = may_split ? be_ptx_launches(k, b->gpu).scratch : 0;
    ir_unset(op, A_scratch); /* of a program that was read from a plan */
    if (bytes)
        ir_set_int(op, A_scratch, bytes);
}

/* Each kernel operation has its own batch symbols, even where kernels are
 * equal. */
static void
build_kernel(Build *b, IrOp *op)
{
    BeKernel *k = be_kernel_build(b->arena, op, b->diag);
    if (!k) {
        b->failed = true;
        return;
    }
    ir_set_text(op, A_symbol, k->name);
    note_scratch(b, op, k);
    *IR_TABLE_SLOT(b->arena, b->kernels.by_op, op->number) = k;
    add_kernel(b, op, k);
}

/* NULL: what is not combined is copied. */
static const char *
build_combination(Build *b, const IrOp *op, DType dtype)
{
    IrAgg how = (IrAgg)ir_enum(op, A_op);
    const char **name = &b->combined[how][dtype];
    if (*name)
        return *name;
    BeKernel *k =
        be_kernel_combine(b->arena, how, dtype, op->module->num_replicas);
    if (!k)
        return NULL;
    add_kernel(b, op, k);
    return *name = k->name;
}

/* One for each operand, or none. */
static void
build_combinations(Build *b, IrOp *op)
{
    int num = op->num_operands;
    const char **names = NEW_ARRAY(b->arena, const char *, (size_t)num + 1);
    ir_unset(op, A_kernels); /* of a program that was read from a plan */
    if (!b->gpu)
        return;
    for (int i = 0; i < num; i++) {
        names[i] = build_combination(b, op, op->operands[i]->type.dtype);
        if (!names[i])
            return;
    }
    ir_set_names(op, A_kernels, names, num);
}

static void
build_kernels_of(IrOp *op, void *data)
{
    Build *b = data;
    if (b->stopped)
        return;
    if (op->kind == OP_kernel)
        build_kernel(b, op);
    else if (op->kind == OP_all_reduce_start)
        build_combinations(b, op);
}

bool
be_kernels_build(Arena *a, IrModule *m, const char *targets, BeKernels *out)
{
    Build b = {.arena = a, .by_name = map_new(a), .diag = m->diag};
    b.gpu = other_code_of(a, m, targets);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, build_kernels_of, &b);
    *out = b.kernels;
    return !b.failed;
}

void
be_kernels_print(Str *out, const BeKernels *kernels)
{
    for (int i = 0; i < kernels->len; i++) {
        str_add(out, i ? "\n" : "");
        be_kernel_print(out, kernels->data[i]);
    }
}

/* ---- jobs --------------------------------------------------------------- */

typedef VEC(BeJob) BeJobs;

/* Work that is too small for better code to be noticeably faster. */
enum { LITTLE_WORK = 2048 };

/* The code generator's level.  Most of its time would go into code that runs
 * for a fraction of a microsecond: scalars of main, the parameters of a tiny
 * model. (For a GPU its assembler optimizes again in any case.) Bits are the
 * same at all levels. */
static int
kernel_level(const BeKernel *k, const BeTarget *t, int level)
{
    double work = (double)be_items_bound(k) * be_kernel_cost(k, &k->body);
    return level < 3 && work < LITTLE_WORK && !t->gpu ? 0 : level;
}

/* How long jobs take, roughly: the host's most of all, a product's 10 ms, other
 * kernels' half of that. */
enum { CHEAP, USUAL, EXPENSIVE, MOST_EXPENSIVE };

static int
how_expensive(const BeKernel *k, int level)
{
    if (be_kernel_contains(&k->body, K_CONTRACT) ||
        be_kernel_contains(&k->body, K_REDUCE))
        return EXPENSIVE;
    return level ? USUAL : CHEAP;
}

static void
add_host_job(Arena *a, const BeHostModule *host, const BeTarget *t,
             const BeCode *code, BeJobs *jobs)
{
    BeJob job = {
        .name = HOST_OBJECT, .text = code->ir, .text_len = code->ir_len};
    if (host->enqueues) { /* which the cache must know */
        job.text =
            arena_printf(a, "%.*s# enqueues\n", (int)code->ir_len, code->ir);
        job.text_len = strlen(job.text);
    }
    job.emit = be_host_emit; /* calls and copies alone: level 0 */
    job.expensive = MOST_EXPENSIVE;
    job.what = host;
    job.target = t;
    VEC_PUSH(a, *jobs, job);
}

static void
add_kernel_jobs(Arena *a, const BeKernels *kernels, const BeTarget *t,
                int level, BeJobs *jobs)
{
    for (int i = 0; i < kernels->len; i++) {
        const BeKernel *k = kernels->data[i];
        BeJob job = {.name = k->name, .text = k->text};
        job.text_len = k->text_len;
        job.emit = t->gpu ? be_ptx_emit : be_kernel_emit;
        job.what = k;
        job.target = t;
        job.level = kernel_level(k, t, level);
        job.expensive = how_expensive(k, job.level);
        VEC_PUSH(a, *jobs, job);
    }
}

/* The jobs for all targets; m may be NULL.  A GPU's code is kernels alone. */
static Status
list_jobs(Arena *a, IrModule *m, const BeKernels *kernels,
          const BeOptions *options, const BeCode *code, BeJobs *jobs)
{
    const BeTarget *targets;
    int num;
    BeHostModule *host = NEW(a, BeHostModule);
    const char *list = options->targets ? options->targets : "native";
    TRY(be_targets_parse(a, list, &targets, &num));
    *host = (BeHostModule){m, kernels, find_other_code(targets, num) != NULL};
    for (int i = 0; i < num; i++) {
        if (m && target_formats[targets[i].device].hosts)
            add_host_job(a, host, &targets[i], code, jobs);
        add_kernel_jobs(a, kernels, &targets[i], options->level, jobs);
    }
    return OK;
}

/* ---- objects ------------------------------------------------------------ */

static Status
compile(Arena *a, IrModule *m, const BeKernels *kernels,
        const BeOptions *options, BeCode *code)
{
    BeJobs jobs = {0};
    TRY(list_jobs(a, m, kernels, options, code, &jobs));
    BeObjectOptions how = {.num_threads = options->num_threads,
                           .cache = be_cache_open(a, options->cache),
                           .by_module = options->by_module,
                           .verify = options->verify};
    code->warning = be_cache_warning(how.cache);
    TRY(be_objects_make(a, jobs.data, jobs.len, &how));
    for (int i = 0; i < jobs.len; i++) {
        const BeJob *job = &jobs.data[i];
        BeObject object = {job->target->name, job->name,    job->object,
                           job->size,         job->seconds, job->cached};
        VEC_PUSH(a, code->objects, object);
    }
    return OK;
}

/* ---- the targets of a plan ---------------------------------------------- */

Status
be_check_targets(Arena *a, const char *list)
{
    const BeTarget *targets;
    int num;
    return be_targets_parse(a, list, &targets, &num);
}

static bool
has_host(const BeTarget *targets, int num)
{
    for (int i = 0; i < num; i++)
        if (target_formats[targets[i].device].hosts)
            return true;
    return false;
}

static bool
has_device(const BeTarget *targets, int num, IrDeviceKind device)
{
    for (int i = 0; i < num; i++)
        if (targets[i].device == device)
            return true;
    return false;
}

static Status
check_kind(const IrModule *m, const char *list, const BeTarget *targets,
           int num, IrDeviceKind device)
{
    if (!target_formats[device].extension ||
        !ir_devices_have(m->devices, device) ||
        has_device(targets, num, device))
        return OK;
    return status_new(STATUS_USAGE,
                      "--target %s has no code for %s: --target %s,%s has",
                      list, m->devices, list, target_least(device)->name);
}

/* A plan runs on the devices that its program names: with main on the host. */
static Status
check_targets(const IrModule *m, const char *list, const BeTarget *targets,
              int num)
{
    if (!has_host(targets, num))
        return status_new(STATUS_USAGE,
                          "--target %s has no code for main, which runs on the "
                          "host: --target native,%s has",
                          list, list);
    for (int i = 0; i < NUM_DEVICE_KINDS; i++)
        TRY(check_kind(m, list, targets, num, (IrDeviceKind)i));
    return OK;
}

static Status
check_devices(const IrModule *m)
{
    int num_kinds = 0;
    for (int i = 0; i < NUM_DEVICE_KINDS; i++)
        num_kinds += ir_devices_have(m->devices, (IrDeviceKind)i);
    if (num_kinds <= 1)
        return OK;
    return status_new(STATUS_USAGE,
                      "no run has both kinds of devices of %s, since replicas "
                      "execute collectives together",
                      m->devices);
}

Status
be_plan_targets(Arena *a, const IrModule *m, const BeOptions *options,
                BeTargetCodes *out)
{
    const BeTarget *targets;
    int num;
    const char *list =
        options->targets ? options->targets : usual_targets(a, m);
    TRY(be_targets_parse(a, list, &targets, &num));
    TRY(check_targets(m, list, targets, num));
    *out = (BeTargetCodes){0};
    for (int i = 0; i < num; i++) {
        PlanCode code = {.name = targets[i].name,
                         .target = target_find(targets[i].name)};
        VEC_PUSH(a, *out, code);
    }
    return OK;
}

BeTargetCodes
be_code_sizes(Arena *a, const BeCode *code)
{
    BeTargetCodes sizes = {0};
    for (int i = 0; i < code->objects.len; i++) {
        const BeObject *o = &code->objects.data[i];
        if (!sizes.len || strcmp(VEC_LAST(sizes).name, o->target) != 0)
            VEC_PUSH(a, sizes,
                     ((PlanCode){.name = o->target,
                                 .target = target_find(o->target)}));
        VEC_LAST(sizes).num_objects++;
        VEC_LAST(sizes).bytes += o->size;
    }
    return sizes;
}

/* As a list for --target. */
static const char *
list_targets(Arena *a, const BeTargetCodes *codes)
{
    Str s = str_new(a);
    for (int i = 0; i < codes->len; i++)
        str_addf(&s, "%s%s", i ? "," : "", codes->data[i].name);
    return str_text(&s);
}

Status
be_compile(Arena *a, IrModule *m, const BeKernels *kernels,
           const BeOptions *options, BeCode *out)
{
    BeOptions how = *options;
    *out = (BeCode){0};
    BeTargetCodes targets;
    TRY(check_devices(m));
    TRY(be_plan_targets(a, m, options, &targets));
    how.targets = list_targets(a, &targets);
    Str text = str_new(a);
    ir_print_module(&text, m);
    out->ir = str_text(&text);
    out->ir_len = text.len;
    Str calls = str_new(a);
    ir_print_calls(&calls, m);
    out->calls = str_text(&calls);
    out->calls_len = calls.len;
    return compile(a, m, kernels, &how, out);
}

Status
be_compile_kernels(Arena *a, const BeKernels *kernels, const BeOptions *options,
                   BeCode *out)
{
    *out = (BeCode){0};
    return compile(a, NULL, kernels, options, out);
}

/* ---- text --------------------------------------------------------------- */

static Status
print_jobs(Str *out, IrModule *m, const BeKernels *kernels,
           const BeOptions *options, bool assembly)
{
    BeJobs jobs = {0};
    BeCode nothing = {.ir = ""};
    Arena *a = out->arena;
    TRY(list_jobs(a, m, kernels, options, &nothing, &jobs));
    for (int i = 0; i < jobs.len; i++) {
        const char *text;
        TRY(assembly ? be_job_asm(a, &jobs.data[i], &text)
                     : be_job_llvm(a, &jobs.data[i], &text));
        str_add(out, i ? "\n" : "");
        str_add(out, text);
    }
    return OK;
}

Status
be_print_llvm(Str *out, IrModule *m, const BeKernels *kernels,
              const BeOptions *options)
{
    return print_jobs(out, m, kernels, options, false);
}

Status
be_print_asm(Str *out, IrModule *m, const BeKernels *kernels,
             const BeOptions *options)
{
    return print_jobs(out, m, kernels, options, true);
}

Status
be_print_ptx(Str *out, const BeKernels *kernels, const BeOptions *options)
{
    const BeTarget *targets;
    int num;
    Arena *a = out->arena;
    BeOptions how = *options;
    BeCode code = {0};
    Str text = str_new(a);
    how.targets =
        options->targets ? options->targets : target_least(DEVICE_cuda)->name;
    TRY(be_targets_parse(a, how.targets, &targets, &num));
    if (num > 1 || !targets[0].gpu)
        return status_new(STATUS_USAGE,
                          "--to ptx prints the code for one GPU, as --target "
                          "%s, not for %s",
                          target_least(DEVICE_cuda)->name, how.targets);
    TRY(compile(a, NULL, kernels, &how, &code));
    for (int i = 0; i < code.objects.len; i++)
        be_ptx_join(&text, code.objects.data[i].bytes,
                    code.objects.data[i].size);
    str_add(out, str_text(&text));
    return OK;
}

/* ---- the plan ----------------------------------------------------------- */

static void
add_source(PlanWriter *w, const IrModule *m, uint16_t file)
{
    size_t len;
    const char *text = diag_source_text(m->diag, file, &len);
    plan_add_source(w, diag_source_name(m->diag, file), text ? text : "", len);
}

PlanWriter *
be_plan(Arena *a, const IrModule *m, const BeCode *code)
{
    PlanWriter *w = plan_writer_new(a);
    plan_set_ir(w, code->ir, code->ir_len);
    plan_set_calls(w, code->calls, code->calls_len);
    for (int i = 0; i < code->objects.len; i++) {
        const BeObject *o = &code->objects.data[i];
        plan_add_object(w, o->target, o->name, o->bytes, o->size);
    }
    int num = m->lists_sources ? m->sources.len : diag_num_sources(m->diag);
    for (int i = 0; i < num; i++)
        add_source(w, m, m->lists_sources ? m->sources.data[i] : (uint16_t)i);
    return w;
}
