/*
 * build.c - makes plans inside a test
 */
#include "tests/unit/unit.h"

#include "backend/backend.h"
#include "ir/base/str.h"
#include "ir/plan/target.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"
#include "tests/codegen/code_cache.h"
#include "tests/devices/build.h"

const char build_source[] = "line one\n"
                            "line two is longer\n";

/* ---- text ---------------------------------------------------------------- */

/* Whether a line is an operation, or ends one, that has no place yet: it is
 * indented and opens no region. */
static bool
lacks_place(const char *line, size_t len)
{
    return len && line[0] == ' ' && line[len - 1] != '{' &&
           !memmem(line, len, " at ", 4);
}

static const char *
with_places(Arena *a, const char *body)
{
    Str s = str_new(a);
    while (*body) {
        size_t len = strcspn(body, "\n");
        str_addn(&s, body, len);
        str_add(&s, lacks_place(body, len) ? " at 1:1+4\n" : "\n");
        body += len + 1;
    }
    return str_text(&s);
}

static const char *
with_head(Arena *a, const char *strategy, const char *workers, int n,
          int replicas, const char *body)
{
    const char *devices = n > 1 ? arena_printf(a, "cpu:0-%d", n - 1) : "cpu:0";
    return arena_printf(a,
                        "tfd-ir 1 phase ir\n"
                        "source 0 \"t.tfd\"\n"
                        "strategy %s devices \"%s\"%s replicas %d\n%s",
                        strategy, devices, workers, replicas,
                        with_places(a, body));
}

const char *
build_program(Arena *a, int n, const char *body)
{
    return with_head(a, "mirrored", "", n, n, body);
}

const char *
build_worker_program(Arena *a, int workers, int n, const char *body)
{
    return with_head(a, "multi_worker_mirrored",
                     arena_printf(a, " workers %d", workers), n, workers * n,
                     body);
}

/* ---- plans --------------------------------------------------------------- */

IrModule *
build_placed(Arena *a, const char *text)
{
    PassOptions options = {.level = 2};
    Diag *d = diag_new(a);
    diag_add_source(d, "t.tfd", build_source, strlen(build_source));
    uint16_t file = diag_add_source(d, "t.tir", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (!m || !ir_verify(m, d) || !pass_run_pipeline(m, d, &options, NULL))
        fail_msg("%s", diag_text(d, a));
    return m;
}

static Plan *
read_back(Arena *a, const PlanWriter *w)
{
    const char *bytes;
    size_t len;
    Plan *p = NULL;
    Status st = plan_write_bytes(w, a, &bytes, &len);
    if (!st)
        st = plan_read_bytes(a, "dir/t.tfp", bytes, len, &p);
    if (st)
        fail_msg("%s", status_message(st));
    return p;
}

Plan *
build_plan(Arena *a, const char *text)
{
    const char *programs = getenv("TFD_PROGRAMS");
    bool enqueues = programs && strcmp(programs, "enqueue") == 0;
    return build_plan_for(a, text, enqueues ? "native,sm_80" : NULL);
}

Plan *
build_plan_for(Arena *a, const char *text, const char *targets)
{
    BeKernels kernels = {0};
    BeCode code = {0};
    BeOptions options = {.targets = targets,
                         .level = 2,
                         .num_threads = 1,
                         .cache = code_cache(),
                         .by_module = true};
    IrModule *m = build_placed(a, text);
    if (!be_kernels_build(a, m, targets, &kernels))
        fail_msg("%s", diag_text(m->diag, a));
    Status st = be_compile(a, m, &kernels, &options, &code);
    if (st)
        fail_msg("%s", status_message(st));
    return read_back(a, be_plan(a, m, &code));
}

Plan *
build_plan_with(Arena *a, const char *text, const void *object, size_t size)
{
    Str ir = str_new(a);
    PlanWriter *w = plan_writer_new(a);
    ir_print_module(&ir, build_placed(a, text));
    plan_set_ir(w, str_text(&ir), ir.len);
    plan_add_object(w, target_here(), "host", object, size);
    plan_add_source(w, "t.tfd", build_source, strlen(build_source));
    Plan *p = read_back(a, w);
    p->ir_hash = NULL; /* the object is of no module */
    return p;
}

Result
build_run(Arena *a, const Plan *p, RtOptions options)
{
    Result r;
    size_t len;
    char *out;
    options.out = open_memstream(&out, &len);
    options.err = stderr;
    r.st = rt_run(p, &options);
    fclose(options.out);
    r.out = arena_strdup(a, out);
    free(out);
    return r;
}
