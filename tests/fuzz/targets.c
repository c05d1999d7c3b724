/*
 * targets.c - the readers as targets
 *
 * Plans are read without checksums (TFD_CHECKSUMS=0), otherwise only the
 * checksums would be tested; their code for all targets is loaded, not run.
 */
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/fuzz/fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "backend/backend.h"
#include "frontend/frontend.h"
#include "frontend/syntax/parse.h"
#include "ir/plan/plan.h"
#include "passes/passes.h"
#include "runtime/data/data.h"
#include "runtime/data/npy.h"
#include "runtime/load/tables.h"
#include "tests/fuzz/checkpoints.h"
#include "tests/fuzz/environments.h"
#include "tests/fuzz/frames.h"

_Noreturn void
fuzz_bug(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fuzz: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    abort();
}

/* ---- the promises of every reader --------------------------------------- */

/* The environment in which one input is read. */
typedef struct Reader {
    Arena *arena;
    Intern *names;
    Diag *diag;
    const char *path;
} Reader;

static Reader
reader_new(const char *path)
{
    Arena *a = arena_new(NULL, "fuzz");
    return (Reader){a, intern_new(a), diag_new(a), path};
}

/* A reader returns a result or a message why not: never both or neither. */
static bool
made_or_told(const Reader *r, const char *what, bool made)
{
    bool told = diag_num_errors(r->diag) > 0;
    if (made && told)
        fuzz_bug("%s in spite of errors:\n%s", what,
                 diag_text(r->diag, r->arena));
    if (!made && (!told || !*diag_text(r->diag, r->arena)))
        fuzz_bug("no %s, and no message", what);
    return made;
}

/* Of the last input that was refused with a status. */
static char refusal[256];

const char *
fuzz_refusal(void)
{
    return refusal;
}

/* A refusal has words and is the input's fault. */
static bool
refused(Status st)
{
    snprintf(refusal, sizeof refusal, "%s", status_message(st));
    if (status_kind(st) != STATUS_INPUT || !*status_message(st))
        fuzz_bug("refused with status %d: %s", (int)status_kind(st),
                 status_message(st));
    status_free(st);
    return false;
}

static void
expect_same(const char *what, const Str *want, const Str *have)
{
    if (strcmp(str_text(want), str_text(have)) != 0)
        fuzz_bug("%s reads back to something else:\n%s---\n%s", what,
                 str_text(want), str_text(have));
}

/* ---- modules ------------------------------------------------------------ */

static Str
module_text(Arena *a, const IrModule *m)
{
    Str s = str_new(a);
    ir_print_module(&s, m);
    return s;
}

/* The printed text of m reads back to the same text. */
static void
check_module_text(const IrModule *m, const char *what)
{
    Reader r = reader_new("printed.tir");
    Str text = module_text(r.arena, m);
    uint16_t file = diag_add_source(r.diag, r.path, str_text(&text), text.len);
    IrModule *again =
        ir_parse(r.arena, r.names, r.diag, file, str_text(&text), text.len);
    if (!again)
        fuzz_bug("%s does not read back:\n%s", what,
                 diag_text(r.diag, r.arena));
    Str back = module_text(r.arena, again);
    expect_same(what, &text, &back);
    arena_release(r.arena);
}

static void
check_verified(const IrModule *m, const char *what)
{
    Arena *a = arena_new(NULL, "fuzz");
    Diag *d = diag_new(a);
    if (!ir_verify(m, d))
        fuzz_bug("%s does not verify:\n%s", what, diag_text(d, a));
    arena_release(a);
}

static void
check_after_pass(const char *pass, int number, const IrModule *m, void *data)
{
    (void)number, (void)data;
    check_verified(m, pass);
}

static void
find_op_from_nowhere(IrOp *op, void *data)
{
    *(bool *)data |= op->loc.line == 0;
}

/* Passes give a source line to operations that they insert, so the input needs
 * source lines; and they expect the IR of the front end. */
static bool
is_for_passes(const IrModule *m)
{
    bool from_nowhere = false;
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, find_op_from_nowhere, &from_nowhere);
    return m->phase == PHASE_IR && !from_nowhere;
}

/* A valid module goes through the steps of tfdc, up to the kernels. */
static void
check_module(Reader *r, IrModule *m)
{
    BeKernels kernels = {0};
    PassOptions options = {.level = 2, .after = check_after_pass};
    check_module_text(m, "the module");
    if (is_for_passes(m) &&
        made_or_told(r, "placed module",
                     pass_run_pipeline(m, r->diag, &options, NULL)))
        check_module_text(m, "the placed module");
    if (m->phase == PHASE_PLACED)
        made_or_told(r, "kernels",
                     be_kernels_build(r->arena, m, NULL, &kernels));
}

/* ---- language ----------------------------------------------------------- */

static Str
tree_text(Arena *a, const AstNode *tree)
{
    Str s = str_new(a);
    fe_ast_print(&s, tree);
    return s;
}

static void
check_tree(const char *path, const char *bytes, size_t len)
{
    Reader r = reader_new(path);
    uint16_t file = diag_add_source(r.diag, path, bytes, len);
    AstNode *tree = fe_parse(r.arena, r.names, r.diag, file, bytes, len);
    if (made_or_told(&r, "tree", tree != NULL)) {
        Str text = tree_text(r.arena, tree);
        file = diag_add_source(r.diag, "printed", str_text(&text), text.len);
        tree =
            fe_parse(r.arena, r.names, r.diag, file, str_text(&text), text.len);
        if (!tree)
            fuzz_bug("the tree does not read back:\n%s",
                     diag_text(r.diag, r.arena));
        Str back = tree_text(r.arena, tree);
        expect_same("the tree", &text, &back);
    }
    arena_release(r.arena);
}

/* For one, two or three devices, as the length of the program says. */
static bool
run_language(const char *path, const char *bytes, size_t len)
{
    static const char *const devices[] = {"cpu:0", "cpu:0-1", "cpu:0-2"};
    check_tree(path, bytes, len);
    Reader r = reader_new(path);
    FeOptions options = {
        .path = path, .text = bytes, .len = len, .devices = devices[len % 3]};
    IrModule *m = fe_compile(r.arena, r.names, r.diag, &options);
    bool valid = made_or_told(&r, "module", m != NULL);
    if (valid) {
        check_verified(m, "the program");
        check_module(&r, m);
    }
    arena_release(r.arena);
    return valid;
}

/* ---- IR and kernels ----------------------------------------------------- */

static bool
run_ir(const char *path, const char *bytes, size_t len)
{
    Reader r = reader_new(path);
    uint16_t file = diag_add_source(r.diag, path, bytes, len);
    IrModule *m = ir_parse(r.arena, r.names, r.diag, file, bytes, len);
    bool valid = made_or_told(&r, "module", m != NULL) &&
                 made_or_told(&r, "verified module", ir_verify(m, r.diag));
    if (valid)
        check_module(&r, m);
    arena_release(r.arena);
    return valid;
}

static bool
parse_kernels(Reader *r, const char *bytes, size_t len, Str *text)
{
    BeKernels kernels = {0};
    uint16_t file = diag_add_source(r->diag, r->path, bytes, len);
    bool ok = be_kernel_parse(&kernels, r->arena, r->diag, file, bytes, len);
    *text = str_new(r->arena);
    if (ok)
        be_kernels_print(text, &kernels);
    return made_or_told(r, "kernels", ok);
}

static bool
run_kernels(const char *path, const char *bytes, size_t len)
{
    Str text, back;
    Reader r = reader_new(path);
    bool valid = parse_kernels(&r, bytes, len, &text);
    if (valid) {
        if (!parse_kernels(&r, str_text(&text), text.len, &back))
            fuzz_bug("kernels do not read back:\n%s",
                     diag_text(r.diag, r.arena));
        expect_same("a kernel", &text, &back);
    }
    arena_release(r.arena);
    return valid;
}

/* ---- plans -------------------------------------------------------------- */

/* Any CPU's code is linked, since it is not run. */
static Status
load_code(Arena *a, const Plan *plan, const PlanCode *code)
{
    RtCode *linked;
    RtCodeTables tables;
    const PlanObject *texts;
    if (code->target && !target_formats[code->target->device].hosts)
        return rt_kernel_texts(plan, code, &texts);
    TRY(rt_code_open(code->objects, code->num_objects, &linked));
    Status st = rt_code_tables(a, plan, linked, false, &tables);
    rt_code_close(linked);
    return st;
}

static bool
load_plan(Arena *a, const Plan *plan)
{
    for (int i = 0; i < plan->num_codes; i++) {
        Status st = load_code(a, plan, &plan->codes[i]);
        if (st)
            return refused(st);
    }
    return true;
}

static bool
run_plan(const char *path, const char *bytes, size_t len)
{
    Plan *plan;
    setenv("TFD_CHECKSUMS", "0", 1);
    Arena *a = arena_new(NULL, "fuzz");
    Status st = plan_read_bytes(a, path, bytes, len, &plan);
    bool valid = st ? refused(st) : load_plan(a, plan);
    arena_release(a);
    return valid;
}

/* ---- checkpoints -------------------------------------------------------- */

static bool
run_checkpoint(const char *path, const char *bytes, size_t len)
{
    setenv("TFD_CHECKSUMS", "0", 1);
    Status st = checkpoint_try(path, bytes, len);
    return st ? refused(st) : true;
}

/* ---- environments -------------------------------------------------------- */

static bool
run_environment(const char *path, const char *bytes, size_t len)
{
    (void)path;
    Status st = environment_try(bytes, len);
    return st ? refused(st) : true;
}

/* ---- npy ---------------------------------------------------------------- */

enum { MAX_STEPS = 1000, MAX_ROW = 1 << 20 };

/* A program that states large rows needs the memory, whatever its files have:
 * not for us. */
static bool
has_large_rows(const RtNpyHeader *h)
{
    int64_t elements = 1;
    for (int i = 1; i < h->rank; i++)
        if (__builtin_mul_overflow(elements, h->shape[i], &elements))
            return true;
    return elements > MAX_ROW;
}

static Status
take_steps(RtIter *it)
{
    bool more = true;
    TRY(rt_iter_open(it, rt_iter_passes(it)));
    for (int i = 0; i < MAX_STEPS && more; i++) {
        TRY(rt_iter_has_next(it, &more));
        if (more)
            TRY(rt_iter_next(it));
    }
    return OK;
}

/* The type of a row of such a file, of `lead` ones stacked if that is not
 * "".  Of a dtype that we do not have: something else. */
static const char *
row_type(Arena *a, const RtNpyHeader *h, const char *lead)
{
    Str s = str_new(a);
    DType t = DT_f32;
    for (int i = 0; i < NUM_DTYPES; i++)
        if (strcmp(dtype_info[i].numpy, h->descr) == 0)
            t = (DType)i;
    str_addf(&s, "%s[%s", dtype_info[t].name, lead);
    for (int i = 1; i < h->rank && i < IR_MAX_RANK; i++)
        str_addf(&s, "%s%lld", i > 1 || *lead ? ", " : "",
                 (long long)h->shape[i]);
    str_add(&s, "]");
    return str_text(&s);
}

/* Elements of a source, with types that are those of a batch of one of them. */
static bool
read_source(const char *source, const char *batch)
{
    Reader r = reader_new("source.tir");
    RtDataOptions options = {.dir = ""};
    RtIter *it = NULL;
    const char *text =
        arena_printf(r.arena,
                     "tfd-ir 1 phase ir\n"
                     "strategy default devices \"cpu:0\" replicas 1\n"
                     "dataset @d {\n  %s\n"
                     "  window size=1 stride=1 : %s\n}\n"
                     "iter @it of @d shard auto\n"
                     "func @main() main {\n  return\n}\n",
                     source, batch);
    uint16_t file = diag_add_source(r.diag, r.path, text, strlen(text));
    IrModule *m = ir_parse(r.arena, r.names, r.diag, file, text, strlen(text));
    bool valid = m && ir_verify(m, r.diag);
    if (valid) {
        Status st = rt_iter_new(m, m->iters.data[0], &options, &it);
        if (!st)
            st = take_steps(it);
        valid = st ? refused(st) : true;
        rt_iter_close(it);
    }
    arena_release(r.arena);
    return valid;
}

/* A file of these bytes; its path, which is good while *fd is open. */
static const char *
memory_file(Arena *a, const char *bytes, size_t len, int *fd)
{
    *fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (*fd < 0 || write(*fd, bytes, len) != (ssize_t)len)
        fuzz_bug("no file in memory");
    return arena_printf(a, "/proc/self/fd/%d", *fd);
}

static bool
run_npy(const char *path, const char *bytes, size_t len)
{
    int fd;
    RtNpyHeader h;
    (void)path;
    if (!rt_npy_parse(bytes, len, &h) || has_large_rows(&h))
        return false;
    Arena *a = arena_new(NULL, "fuzz");
    const char *file = memory_file(a, bytes, len, &fd);
    const char *source =
        arena_printf(a, "npy \"%s\" : %s", file, row_type(a, &h, ""));
    bool valid = read_source(source, row_type(a, &h, "1"));
    close(fd);
    arena_release(a);
    return valid;
}

/* ---- other files of data ------------------------------------------------- */

/* Each input is read as if it were of each format. */
static const struct {
    const char *name, *rest, *batch;
} formats[] = {
    {"npz", " names \"x\", \"y\" : f32[2], i32", "f32[1, 2], i32[1]"},
    {"idx", " : u8[3, 3]", "u8[1, 3, 3]"},
    {"idx", " : f32", "f32[1]"},
    {"csv header=2 separator=44",
     " names \"id\", \"yes\", \"kind\" data=hex\"00000000000000000000\" : "
     "i64, bool, u8[8]",
     "i64[1], bool[1], u8[1, 8]"},
    {"csv header=0 separator=44", " : f32, i16[2]", "f32[1], i16[1, 2]"},
    {"lines cut=1", " : u8[5]", "u8[1, 5]"},
    {"tfrecord",
     " names \"image\", \"label\", \"w\" data=hex\"000000000000\" : u8[2, 2], "
     "i8, f32[3]",
     "u8[1, 2, 2], i8[1], f32[1, 3]"},
    {"tfrecord", " : u8[4]", "u8[1, 4]"},
};

/* Whether one that asks for more than lines takes it. */
static bool
run_files(const char *path, const char *bytes, size_t len)
{
    int fd;
    bool valid = false;
    (void)path;
    setenv("TFD_CHECKSUMS", "0", 1);
    Arena *a = arena_new(NULL, "fuzz");
    const char *file = memory_file(a, bytes, len, &fd);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const char *source = arena_printf(a, "%s \"%s\"%s", formats[i].name,
                                          file, formats[i].rest);
        bool read = read_source(source, formats[i].batch);
        valid |= read && strncmp(formats[i].name, "lines", 5) != 0;
    }
    close(fd);
    arena_release(a);
    return valid;
}

/* ---- frames ------------------------------------------------------------- */

static bool
run_frames(const char *path, const char *bytes, size_t len)
{
    (void)path;
    return frame_try(bytes, len);
}

/* ---- the table ---------------------------------------------------------- */

static const FuzzTarget targets[] = {
    {"language", true, run_language},
    {"ir", true, run_ir},
    {"kernels", true, run_kernels},
    {"plan", false, run_plan},
    {"npy", false, run_npy},
    {"files", false, run_files},
    {"checkpoint", false, run_checkpoint},
    {"environment", true, run_environment},
    {"frames", false, run_frames},
};

enum { NUM_READERS = sizeof targets / sizeof *targets };

const FuzzTarget *
fuzz_target(const char *name)
{
    for (int i = 0; i < NUM_READERS; i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    fprintf(stderr, "fuzz: \"%s\" is none of", name);
    for (int i = 0; i < NUM_READERS; i++)
        fprintf(stderr, " %s", targets[i].name);
    fprintf(stderr, "\n");
    exit(2);
}
