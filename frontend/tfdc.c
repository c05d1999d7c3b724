/*
 * tfdc.c - from text to plan
 *
 * Reads a phase's text (--from; a program by default), goes on phase by phase
 * to the one asked for (--to; a plan by default), and prints or writes that.
 * What each phase does is in the libraries.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "frontend/dist/cross_device.h"
#include "frontend/dist/strategy.h"
#include "frontend/frontend.h"
#include "frontend/syntax/parse.h"
#include "frontend/tfdc_options.h"
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "ir/base/io/limit.h"
#include "ir/text/text.h"
#include "ir/type_bounds.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"

typedef struct Tfdc {
    Arena *arena;
    Options *options;
    Diag *diag;
    Intern *names;
    const char *path;
    const char *text;
    size_t len;
    Phase to;
    const char *from; /* NULL: a program */
    PassOptions passes;
    int64_t bytes_per_pack, timeout_ms; /* of --collectives; -1: not given */
    BeOptions backend;
    int64_t num_workers;     /* 0: as the program says */
    const char *dump_dir;    /* or NULL */
    const char *print_after; /* or NULL */
    int num_dumps;
    Status status; /* of a dump that could not be written */
    double begin;  /* of the phase, in seconds */
} Tfdc;

/* With --time: the time since the last call. */
static void
note_time(Tfdc *t, const char *phase)
{
    if (!t->passes.time)
        return;
    double now = clock_seconds();
    fprintf(stderr, "%8.3f ms  [%s]\n", 1e3 * (now - t->begin), phase);
    t->begin = now;
}

/* Messages so far, and whether there were errors: the exit status. */
static int
report(Tfdc *t)
{
    diag_print(t->diag, stderr);
    return diag_exit_status(t->diag);
}

/* ---- output ------------------------------------------------------------- */

static const char *
folder_of(Tfdc *t, const char *path)
{
    size_t len = (size_t)(file_name(path) - path);
    return len > 1 ? arena_strndup(t->arena, path, len - 1) : path;
}

static void
dump(Tfdc *t, const char *name, const char *extension, const char *text)
{
    if (!t->dump_dir || t->status)
        return;
    t->status = file_make_folder(t->dump_dir);
    if (t->status)
        return;
    const char *path = arena_printf(t->arena, "%s/%02d-%s.%s", t->dump_dir,
                                    ++t->num_dumps, name, extension);
    t->status = file_write(path, text, strlen(text));
}

/* The program's text, which the text of its IR speaks of. */
static void
dump_sources(Tfdc *t)
{
    for (int i = 0; t->dump_dir && i < diag_num_sources(t->diag); i++) {
        size_t len;
        const char *text = diag_source_text(t->diag, (uint16_t)i, &len);
        const char *name = diag_source_name(t->diag, (uint16_t)i);
        const char *path = arena_printf(t->arena, "%s/%s", t->dump_dir,
                                        plan_source_entry(t->arena, i, name));
        if (text && !t->status)
            t->status = file_make_folder(folder_of(t, path));
        if (text && !t->status)
            t->status = file_write(path, text, len);
    }
}

static void
after_pass(const char *pass, int number, const IrModule *m, void *data)
{
    Tfdc *t = data;
    (void)number;
    bool print = t->print_after && (!strcmp(t->print_after, "all") ||
                                    !strcmp(t->print_after, pass));
    if (!print && !t->dump_dir)
        return;
    const char *text = ir_module_text(t->arena, m);
    dump(t, pass, "tir", text);
    if (!print || t->status)
        return;
    text = arena_printf(t->arena, "# after %s\n%s", pass, text);
    t->status = file_write("-", text, strlen(text));
}

/* The text that --to prints. */
static Status
print_text(Tfdc *t, const char *text)
{
    const char *path = options_value(t->options, OPT_OUT, "-");
    return file_write(path, text, strlen(text));
}

static const char *
plan_path(Tfdc *t)
{
    const char *dot = strrchr(t->path, '.'), *slash = strrchr(t->path, '/');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - t->path)
                                                 : strlen(t->path);
    return options_value(
        t->options, OPT_OUT,
        arena_printf(t->arena, "%.*s.tfp", (int)stem, t->path));
}

/* ---- phases ------------------------------------------------------------- */

/* The program as a source: by its last name, so that the plan does not depend
 * on where it lies; messages show the path given. */
static uint16_t
add_input(Tfdc *t, Diag *d)
{
    uint16_t file = diag_add_source(d, file_name(t->path), t->text, t->len);
    diag_set_path(d, file, t->path);
    return file;
}

static Status
print_module(Tfdc *t, const IrModule *m)
{
    if (options_given(t->options, OPT_EXPAND))
        m = pass_expand_devices(m, t->arena);
    return print_text(t, ir_module_text(t->arena, m));
}

/* The program's tree as program text, which is dumped; NULL: mistakes are in d.
 */
static const char *
tree_text(Tfdc *t, Diag *d)
{
    uint16_t file = add_input(t, d);
    AstNode *n = fe_parse(t->arena, t->names, d, file, t->text, t->len);
    if (!n)
        return NULL;
    Str s = str_new(t->arena);
    fe_ast_print(&s, n);
    dump(t, "ast", "txt", str_text(&s));
    return str_text(&s);
}

static IrModule *
compile_source(Tfdc *t)
{
    int n = options_count(t->options, OPT_DEFINE);
    const char **defines = NEW_ARRAY(t->arena, const char *, (size_t)n + 1);
    for (int i = 0; i < n; i++)
        defines[i] = options_nth(t->options, OPT_DEFINE, i);
    FeOptions fe = {
        .path = t->path,
        .text = t->text,
        .len = t->len,
        .defines = defines,
        .num_defines = n,
        .strategy = options_value(t->options, OPT_STRATEGY, NULL),
        .devices = options_value(t->options, OPT_DEVICES, NULL),
        .num_workers = (int)t->num_workers,
        .cross = options_value(t->options, OPT_CROSS, NULL),
        .parameters = options_value(t->options, OPT_PARAMETERS, NULL),
        .widen = options_given(t->options, OPT_WIDEN),
    };
    return fe_compile(t->arena, t->names, t->diag, &fe);
}

/* The text of a source, where --dump-phases and a plan that is unpacked have
 * it, so that the plan made of them is the same.  Without it messages show no
 * lines. */
static Status
read_source_text(Tfdc *t, const IrModule *m, int i)
{
    char *text;
    size_t len;
    uint16_t file = m->sources.data[i];
    const char *name = diag_source_name(t->diag, file);
    const char *path =
        arena_printf(t->arena, "%.*s%s", (int)(file_name(t->path) - t->path),
                     t->path, plan_source_entry(t->arena, i, name));
    Status st = file_read(t->arena, path, &text, &len);
    if (!st)
        diag_set_text(t->diag, file, text, len);
    if (!st || status_kind(st) == STATUS_MACHINE)
        return st;
    status_free(st);
    return OK;
}

/* Of an option beside --from. */
static Status
is_in_text(const Tfdc *t, int option)
{
    return status_new(STATUS_USAGE,
                      "%s has no effect beside --from %s, whose text has it "
                      "already: compile the program with it",
                      options_spelling(t->options, option), t->from);
}

/* The command line wins over the file's strategy, and over a dump of it. */
static void
use_collectives(const Tfdc *t, IrModule *m)
{
    if (t->bytes_per_pack >= 0)
        m->bytes_per_pack = t->bytes_per_pack;
    if (t->timeout_ms >= 0)
        m->timeout_ms = t->timeout_ms;
}

static bool
has_been_through(const IrModule *m, const char *pass)
{
    return m->phase == PHASE_PLACED ||
           (m->after && pass_find(m->after) >= pass_find(pass));
}

/* An option for a pass that the text of --from has been through. */
static Status
check_is_ahead(const Tfdc *t, const IrModule *m)
{
    const Options *o = t->options;
    bool all = t->print_after && !strcmp(t->print_after, "all");
    const struct {
        int option;
        bool given;
        const char *pass;
    } used[] = {
        {OPT_COLLECTIVES, t->bytes_per_pack >= 0, "bucket"},
        {OPT_COLLECTIVES, t->timeout_ms >= 0, "schedule"},
        {OPT_PRECISION, options_given(o, OPT_PRECISION), "mark_precision"},
        {OPT_CHECK_NAN, options_given(o, OPT_CHECK_NAN), "fuse"},
        {OPT_PRINT_AFTER, t->print_after, all ? "allocate" : t->print_after},
    };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (used[i].given && has_been_through(m, used[i].pass))
            return is_in_text(t, used[i].option);
    return OK;
}

static IrModule *
read_module(Tfdc *t)
{
    uint16_t file = add_input(t, t->diag);
    IrModule *m = ir_parse(t->arena, t->names, t->diag, file, t->text, t->len);
    if (!m || !ir_verify(m, t->diag))
        return NULL;
    for (int i = 0; i < m->sources.len && !t->status; i++)
        t->status = read_source_text(t, m, i);
    if (!t->status)
        t->status = check_is_ahead(t, m);
    use_collectives(t, m);
    return t->status ? NULL : m;
}

/* The module at phase ir or later, or NULL after messages. */
static IrModule *
make_module(Tfdc *t)
{
    if (t->from)
        return read_module(t);
    if (t->dump_dir)
        tree_text(t, diag_new(t->arena));
    IrModule *m = compile_source(t);
    note_time(t, "front end");
    if (m)
        use_collectives(t, m);
    if (m)
        dump(t, "ir", "tir", t->dump_dir ? ir_module_text(t->arena, m) : "");
    if (m)
        dump_sources(t);
    return m;
}

static Status
finish_code(Tfdc *t, IrModule *m, const BeKernels *kernels)
{
    Str s = str_new(t->arena);
    switch (t->to) {
    case TO_KERNELS:
        be_kernels_print(&s, kernels);
        return print_text(t, str_text(&s));
    case TO_LLVM:
        TRY(be_print_llvm(&s, m, kernels, &t->backend));
        return print_text(t, str_text(&s));
    case TO_ASM:
        TRY(be_print_asm(&s, m, kernels, &t->backend));
        return print_text(t, str_text(&s));
    case TO_PTX:
        TRY(be_print_ptx(&s, kernels, &t->backend));
        return print_text(t, str_text(&s));
    default:
        return status_new(STATUS_USAGE,
                          "kernels alone are no plan; use --to kernels, llvm, "
                          "asm or ptx");
    }
}

static Status
explain_code(Tfdc *t, const BeTargetCodes *codes)
{
    Str s = str_new(t->arena);
    str_add(&s, "\n");
    plan_print_code(&s, codes->data, codes->len);
    return file_write("-", str_text(&s), s.len);
}

static Status
write_plan(Tfdc *t, IrModule *m, const BeKernels *kernels)
{
    BeCode code = {.ir = NULL};
    TRY(be_compile(t->arena, m, kernels, &t->backend, &code));
    note_time(t, "code");
    if (code.warning)
        fprintf(stderr, "tfdc: warning: %s\n", code.warning);
    Status st = plan_write(be_plan(t->arena, m, &code), plan_path(t));
    note_time(t, "plan");
    if (st || !options_given(t->options, OPT_EXPLAIN))
        return st;
    BeTargetCodes sizes = be_code_sizes(t->arena, &code);
    return explain_code(t, &sizes);
}

/* -o is where the plan goes; without it the sizes of code are not known. */
static Status
explain(Tfdc *t, const IrModule *m)
{
    Str s = str_new(t->arena);
    BeTargetCodes targets;
    pass_explain(&s, m);
    TRY(be_plan_targets(t->arena, m, &t->backend, &targets));
    TRY(file_write("-", str_text(&s), s.len));
    return options_given(t->options, OPT_OUT) ? OK : explain_code(t, &targets);
}

/* After all passes it is; those of a list may leave it anywhere. */
static Status
check_is_placed(const IrModule *m)
{
    return m->phase == PHASE_PLACED
               ? OK
               : status_new(STATUS_USAGE,
                            "--passes leaves a program that is not placed, "
                            "which can be printed alone");
}

static Status
finish_module(Tfdc *t, IrModule *m)
{
    BeKernels kernels = {0};
    if (t->to == TO_IR || t->to == TO_PLACED)
        return print_module(t, m);
    TRY(check_is_placed(m));
    if (!be_kernels_build(t->arena, m, t->backend.targets, &kernels))
        return OK;
    note_time(t, "kernels");
    if (options_given(t->options, OPT_EXPLAIN)) {
        TRY(explain(t, m));
        if (!options_given(t->options, OPT_OUT))
            return OK;
    }
    if (t->dump_dir) {
        Str s = str_new(t->arena);
        be_kernels_print(&s, &kernels);
        dump(t, "kernels", "txt", str_text(&s));
    }
    if (t->to == TO_PLAN)
        return write_plan(t, m, &kernels);
    return finish_code(t, m, &kernels);
}

static Status
run_kernels(Tfdc *t)
{
    BeKernels kernels = {0};
    uint16_t file = add_input(t, t->diag);
    if (!be_kernel_parse(&kernels, t->arena, t->diag, file, t->text, t->len))
        return OK;
    return finish_code(t, NULL, &kernels);
}

/* Errors in the program are in t->diag afterwards; the status is about the
 * world. */
static Status
run_phases(Tfdc *t)
{
    const char *list = options_value(t->options, OPT_PASSES, NULL);
    if (t->to == TO_AST && !t->from) {
        const char *text = tree_text(t, t->diag);
        return text ? print_text(t, text) : OK;
    }
    if (t->from && !strcmp(t->from, "kernels"))
        return run_kernels(t);
    IrModule *m = make_module(t);
    if (!m || (t->to == TO_IR && !list))
        return m ? print_module(t, m) : OK;
    if ((list || m->phase != PHASE_PLACED) &&
        !pass_run_pipeline(m, t->diag, &t->passes, list))
        return OK;
    note_time(t, "passes");
    bool only_passes = list && !options_given(t->options, OPT_TO) &&
                       !options_given(t->options, OPT_EXPLAIN);
    return only_passes ? print_module(t, m) : finish_module(t, m);
}

/* ---- options ------------------------------------------------------------ */

static Status
read_bytes_per_pack(Tfdc *t, const char *value)
{
    char *end;
    long long n = strtoll(value, &end, 10);
    if (*end || end == value || n < 0)
        return status_new(STATUS_USAGE,
                          "bytes_per_pack is a number from 0, not \"%s\"",
                          value);
    t->bytes_per_pack = n < IR_MAX_BYTES ? n : IR_MAX_BYTES;
    return OK;
}

static Status
read_timeout_seconds(Tfdc *t, const char *value)
{
    char *end;
    double most = (double)IR_MAX_TIMEOUT_MS / 1000,
           seconds = strtod(value, &end);
    if (*end || end == value || !(seconds >= 0 && seconds <= most))
        return status_new(STATUS_USAGE,
                          "timeout_seconds is a number from 0 to %g, not "
                          "\"%s\"",
                          most, value);
    t->timeout_ms = (int64_t)ceil(seconds * 1000);
    return OK;
}

static Status
read_collectives(Tfdc *t)
{
    const char *key, *value;
    t->bytes_per_pack = t->timeout_ms = -1;
    for (int i = 0; i < options_count(t->options, OPT_COLLECTIVES); i++) {
        TRY(options_assignment(t->options, t->arena, OPT_COLLECTIVES, i, &key,
                               &value));
        if (!strcmp(key, "bytes_per_pack"))
            TRY(read_bytes_per_pack(t, value));
        else if (!strcmp(key, "timeout_seconds"))
            TRY(read_timeout_seconds(t, value));
        else
            return status_new(STATUS_USAGE,
                              "--collectives knows bytes_per_pack and "
                              "timeout_seconds, not \"%s\"",
                              key);
    }
    return OK;
}

/* The number of an option's value among those that it may have. */
static int
choice(const Options *o, int option, const char *otherwise)
{
    const char *const *values = tfdc_options.rows[option].values;
    const char *value = options_value(o, option, otherwise);
    int i = 0;
    while (strcmp(values[i], value) != 0)
        i++;
    return i;
}

/* What can be read without the program is checked also where --to ends before
 * it has an effect. */
static Status
check_strategy(Tfdc *t)
{
    FeCrossDevice cross;
    IrDevice home;
    Arena *a = t->arena;
    const Options *o = t->options;
    const char *wrong =
        fe_cross_device_parse(a, options_value(o, OPT_CROSS, "auto"), &cross);
    if (!wrong)
        wrong = fe_wrong_devices(a, options_value(o, OPT_DEVICES, NULL));
    if (!wrong && options_given(o, OPT_PARAMETERS))
        wrong = fe_parameter_device(a, options_value(o, OPT_PARAMETERS, NULL),
                                    &home);
    return wrong ? status_new(STATUS_USAGE, "%s", wrong) : OK;
}

static Status
check_defines(Tfdc *t)
{
    const char *name, *value;
    for (int i = 0; i < options_count(t->options, OPT_DEFINE); i++)
        TRY(options_assignment(t->options, t->arena, OPT_DEFINE, i, &name,
                               &value));
    return OK;
}

static Status
check_passes(Tfdc *t)
{
    const char *list = options_value(t->options, OPT_PASSES, "");
    const char *unknown = pass_first_unknown(list, t->arena);
    return unknown ? status_new(STATUS_USAGE,
                                "--passes: there is no pass \"%s\"; there are "
                                "%s",
                                unknown, pass_names(t->arena))
                   : OK;
}

static Status
check_print_after(Tfdc *t)
{
    const char *name = t->print_after;
    if (!name || !strcmp(name, "all") || pass_find(name))
        return OK;
    return status_new(STATUS_USAGE, "--print-after names no pass, but \"%s\"",
                      name);
}

/* What the front end takes into the IR is in a text that was made of it, and
 * what passes take into it is in kernels. */
static Status
check_from(const Tfdc *t)
{
    static const int taken[] = {OPT_STRATEGY,   OPT_DEVICES, OPT_WORKERS,
                                OPT_PARAMETERS, OPT_CROSS,   OPT_DEFINE,
                                OPT_WIDEN};
    static const int of_passes[] = {OPT_COLLECTIVES, OPT_PRECISION,
                                    OPT_CHECK_NAN, OPT_PRINT_AFTER};
    bool kernels = t->from && !strcmp(t->from, "kernels");
    for (size_t i = 0; t->from && i < sizeof taken / sizeof *taken; i++)
        if (options_given(t->options, taken[i]))
            return is_in_text(t, taken[i]);
    for (size_t i = 0; kernels && i < sizeof of_passes / sizeof *taken; i++)
        if (options_given(t->options, of_passes[i]))
            return is_in_text(t, of_passes[i]);
    return OK;
}

/* Nothing is expanded where no program is printed. */
static Status
check_expand(const Tfdc *t)
{
    const Options *o = t->options;
    bool prints = t->to == TO_IR || t->to == TO_PLACED ||
                  (options_given(o, OPT_PASSES) && !options_given(o, OPT_TO) &&
                   !options_given(o, OPT_EXPLAIN));
    if (!options_given(o, OPT_EXPAND) || prints)
        return OK;
    return status_new(STATUS_USAGE,
                      "--expand is for a printed program: add --to placed");
}

/* What is for passes, where none runs. */
static Status
check_runs_passes(const Tfdc *t)
{
    bool lists = options_given(t->options, OPT_PASSES);
    bool runs = t->to > TO_IR || (t->to == TO_IR && lists);
    if (runs || (!lists && !t->print_after))
        return OK;
    return status_new(STATUS_USAGE,
                      "--to %s ends before the first pass: leave --%s out",
                      tfdc_options.rows[OPT_TO].values[t->to],
                      lists ? "passes" : "print-after");
}

/* The words go to standard output, and nothing else. */
static Status
check_explain(const Options *o)
{
    if (!options_given(o, OPT_EXPLAIN))
        return OK;
    if (options_given(o, OPT_TO))
        return status_new(STATUS_USAGE,
                          "--explain prints, and so does --to: give one");
    if (!strcmp(options_value(o, OPT_OUT, ""), "-"))
        return status_new(STATUS_USAGE,
                          "--explain prints to standard output: give the plan "
                          "a file, not -o -");
    return OK;
}

static Status
read_options(Tfdc *t)
{
    Options *o = t->options;
    t->path = options_operand(o);
    for (int i = 0; i < options_count(o, OPT_LIMIT); i++)
        TRY(limit_set("tfdc", options_nth(o, OPT_LIMIT, i)));
    t->to = (Phase)choice(o, OPT_TO, "plan");
    t->from = options_value(o, OPT_FROM, NULL);
    TRY(options_int(o, OPT_WORKERS, 1, IR_MAX_DEVICES, &t->num_workers));
    t->dump_dir = options_value(o, OPT_DUMP, NULL);
    t->print_after = options_value(o, OPT_PRINT_AFTER, NULL);
    int level = choice(o, OPT_LEVEL, "2");
    t->passes = (PassOptions){
        .level = level,
        .keep_apart = options_given(o, OPT_CHECK_NAN),
        .precision = (PassPrecision)choice(o, OPT_PRECISION, "exact"),
        .verify_each = options_given(o, OPT_VERIFY),
        .time = options_given(o, OPT_TIME),
        .after = after_pass,
        .after_data = t};
    t->backend = (BeOptions){.targets = options_value(o, OPT_TARGET, NULL),
                             .level = level,
                             .verify = options_given(o, OPT_VERIFY)};
    TRY(check_explain(o));
    if (t->to == TO_AST && t->from)
        return status_new(STATUS_USAGE, "--to ast needs a program");
    TRY(check_from(t));
    TRY(check_print_after(t));
    TRY(check_passes(t));
    TRY(check_runs_passes(t));
    TRY(check_expand(t));
    TRY(check_strategy(t));
    TRY(check_defines(t));
    TRY(be_check_targets(t->arena, options_value(o, OPT_TARGET, "native")));
    return read_collectives(t);
}

/* A slip of the hand must not cost a program. */
static Status
check_output(Tfdc *t)
{
    const char *path = t->to == TO_PLAN
                           ? plan_path(t)
                           : options_value(t->options, OPT_OUT, "-");
    if (strcmp(t->path, "-") == 0 && t->to == TO_PLAN &&
        !options_given(t->options, OPT_OUT))
        return status_new(STATUS_USAGE,
                          "standard input has no name: give the plan one by "
                          "-o");
    bool same;
    TRY(file_is_same(path, t->path, &same));
    if (!same)
        return OK;
    return status_new(STATUS_USAGE,
                      "\"%s\" is the program, and would be overwritten; "
                      "give another name by -o",
                      path);
}

static Status
check_text(const Tfdc *t, const char *text)
{
    size_t len = strlen(t->path);
    if (t->from && len > 4 && strcmp(t->path + len - 4, ".tfd") == 0)
        return status_new(STATUS_USAGE,
                          "cannot read \"%s\" as --from %s: it is a program, "
                          "which needs no --from",
                          t->path, t->from);
    if (t->len < 4 || memcmp(text, "PK\3\4", 4) != 0)
        return OK;
    return status_new(STATUS_INPUT,
                      "cannot compile \"%s\": it is a plan; tfd-run %s runs it",
                      t->path, t->path);
}

static Status
compile(Tfdc *t)
{
    char *text;
    TRY(read_options(t));
    TRY(file_read_limited(t->arena, t->path,
                          t->from ? LIMIT_module : LIMIT_source, &text,
                          &t->len));
    TRY(check_text(t, text));
    TRY(check_output(t));
    t->text = text;
    t->begin = clock_seconds();
    TRY(run_phases(t));
    Status st = t->status;
    t->status = OK;
    return st;
}

int
main(int argc, char **argv)
{
    file_prepare_process();
    Arena *a = arena_new(NULL, "tfdc");
    Tfdc t = {.arena = a, .diag = diag_new(a), .names = intern_new(a)};
    Status st = options_parse(a, &tfdc_options, argc, argv, &t.options);
    const char *answer = st ? NULL : options_answer(t.options);
    int code = 0;
    if (answer) {
        st = file_write("-", answer, strlen(answer));
    } else if (!st) {
        st = compile(&t);
        code = report(&t);
        status_free(t.status);
    }
    if (st)
        code = status_report(st, "tfdc", stderr);
    status_free(st);
    arena_release(a);
    return code;
}
