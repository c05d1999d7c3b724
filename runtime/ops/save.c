/*
 * save.c - save, restore and summary
 *
 * The values are main's: programs have read them from the variables, or will
 * write them there; but what all replicas have is restored where it is, in the
 * first device's memory if the host has access to it, and copied from there to
 * the other devices.  A checkpoint is one file in a folder of its own, which
 * may have other files, and atomically replaces the previous one.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/type_bounds.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/exec/end.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/run_state.h"
#include "runtime/exec/summaries.h"
#include "runtime/ops/host_ops.h"
#include "runtime/ops/print.h"

#define FILE_NAME "variables.safetensors"

enum { MAX_NAMED = 3 }; /* in a message */

/* ---- loading ------------------------------------------------------------ */

Status
rt_prepare_summary(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    h->each = ir_int(h->op, A_each) != 0;
    fn->prints_each |= h->each;
    return rt_check_format(run, fn, h, 2);
}

Status
rt_prepare_save(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    int num_vars;
    ir_names(h->op, A_vars, &num_vars);
    return rt_check_format(run, fn, h, num_vars);
}

Status
rt_prepare_restore(RtRun *run, RtFunction *fn, RtHostOp *h)
{
    return rt_check_format(run, fn, h, 0);
}

/* ---- a checkpoint being written or read --------------------------------- */

/* What is restored to main's memory, or in place. */
typedef struct Restored {
    const IrVar *var;
    const char *name; /* in the file */
    size_t bytes;
    char *at;
    bool in_place;
} Restored;

typedef struct Checkpoint {
    Arena *arena;
    RtInvocation *inv;
    const RtHostOp *op;
    const char *folder, *path;
    const char *const *names; /* of variables */
    int num_vars;
    Restored *restored;
    int num_restored;
    Map *places; /* of what is restored, by its name in the file */
} Checkpoint;

/* The operands of the path come after the first ones. */
static Checkpoint
checkpoint_of(RtInvocation *inv, const RtHostOp *h, int first)
{
    Checkpoint c = {
        .arena = arena_new(NULL, "checkpoint"), .inv = inv, .op = h};
    Str folder = str_new(c.arena);
    rt_add_text(&folder, inv, h, first);
    c.folder = str_text(&folder);
    c.path = arena_printf(c.arena, "%s/%s", c.folder, FILE_NAME);
    c.names = ir_names(h->op, A_vars, &c.num_vars);
    return c;
}

/* Ends the operation with status st. */
static int32_t
finish(Checkpoint *c, Status st)
{
    bool is_stopped = st && status_kind(st) == STATUS_STOPPED;
    int32_t end = is_stopped ? EXEC_STOPPED
                  : st       ? rt_fault(c->inv, c->op, status_kind(st), "%s",
                                        status_message(st))
                             : EXEC_OK;
    status_free(st);
    arena_release(c->arena);
    return end;
}

/* The tensor of value v of variable i. */
static RtTensor
tensor_of(const Checkpoint *c, int i, const RtValue *v)
{
    const int64_t *dims = c->inv->executor->dims;
    RtTensor t = {.name = c->names[i],
                  .dtype = rt_tensor_dtype(c->arena, v->dtype),
                  .rank = v->rank,
                  .data = rt_host_value(c->inv, v),
                  .bytes = rt_value_bytes(v, dims)};
    for (int k = 0; k < v->rank; k++)
        t.dims[k] = rt_dim(&v->dims[k], dims);
    return t;
}

/* ---- save --------------------------------------------------------------- */

static Status
save(const Checkpoint *c)
{
    RtTensor *tensors = NEW_ARRAY(c->arena, RtTensor, (size_t)c->num_vars);
    for (int i = 0; i < c->num_vars; i++)
        tensors[i] = tensor_of(c, i, &c->op->in[i]);
    TRY(file_make_folder(c->folder));
    return rt_tensors_write(c->path, tensors, c->num_vars);
}

/* The chief writes, but nothing of a step that failed in another process. */
int32_t
rt_op_save(RtInvocation *inv, const RtHostOp *h)
{
    int num_vars;
    RtRun *run = inv->executor->run;
    ir_names(h->op, A_vars, &num_vars);
    Checkpoint c = checkpoint_of(inv, h, num_vars);
    Status st = rt_settle(run);
    return finish(&c, !st && rt_is_chief(run) ? save(&c) : st);
}

/* ---- restore ------------------------------------------------------------ */

/* The copy of the replicas of a device of this process. */
static RtDevicePtr
variable_on(const RtRun *run, int device, const IrVar *v)
{
    const RtExecutor *first = &run->locals[device * run->replicas_each];
    return rt_ptr_add(first->shared, (size_t)v->place.offset);
}

static void
add_restored(Checkpoint *c, const RtRun *run, const char *name, char *at)
{
    int64_t bytes = 0;
    const IrVar *v = ir_var_find(run->module, name);
    ir_type_bytes(run->module, &v->type, &bytes); /* is static */
    int num_names;
    const char *const *names = ir_names(c->op->op, A_names, &num_names);
    const char *saved = names ? names[c->num_restored] : name;
    Restored *r = &c->restored[c->num_restored++];
    *r = (Restored){v, saved, (size_t)bytes, at, at == NULL};
    if (!at)
        r->at = rt_ptr_host(variable_on(run, 0, v));
    if (!r->at)
        r->at = arena_alloc(c->arena, r->bytes);
}

/* The first device has to be done with its variables. */
static void
list_restored(Checkpoint *c, const RtRun *run)
{
    int num_placed;
    const char *const *placed = ir_names(c->op->op, A_in_place, &num_placed);
    c->restored =
        NEW_ARRAY(c->arena, Restored, (size_t)(c->num_vars + num_placed));
    for (int i = 0; i < c->num_vars; i++)
        add_restored(c, run, c->names[i],
                     rt_host_value(c->inv, &c->op->out[i]));
    for (int i = 0; i < num_placed; i++)
        add_restored(c, run, placed[i], NULL);
    if (num_placed) {
        RtQueue *q = run->devices[0]->queues[QUEUE_COMPUTE];
        rt_event_wait(run->devices[0]->ops->record(q));
    }
}

/* Names in a message: the first few, and how many more there are. */
typedef struct Names {
    Str text;
    int num;
} Names;

static void
add_name(Names *names, const char *name)
{
    if (names->num++ < MAX_NAMED)
        str_addf(&names->text, "%s\"%s\"", names->text.len ? ", " : "", name);
}

static const char *
names_text(Names *names)
{
    if (names->num > MAX_NAMED)
        str_addf(&names->text, " and %d more", names->num - MAX_NAMED);
    return str_text(&names->text);
}

/* The dtype of a tensor of a file; false: it is none of ours. */
static bool
find_dtype(Arena *a, const RtTensor *t, DType *out)
{
    Str s = str_new(a);
    for (const char *p = t->dtype; *p; p++)
        str_addc(&s, (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p));
    return dtype_by_name(str_text(&s), out);
}

static const char *
type_text(Arena *a, const RtTensor *t)
{
    DType known;
    Str s = str_new(a);
    bool is_ours = find_dtype(a, t, &known);
    str_add(&s, is_ours ? dtype_info[known].name : t->dtype);
    for (int i = 0; i < t->rank; i++)
        str_addf(&s, "%s%lld", i ? ", " : "[", (long long)t->dims[i]);
    if (t->rank)
        str_addc(&s, ']');
    return str_text(&s);
}

static bool
same_shape(const RtTensor *a, const RtTensor *b)
{
    return a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static bool
has_floats(Arena *a, const RtTensor *t)
{
    DType dtype;
    return find_dtype(a, t, &dtype) && dtype_is_float(dtype);
}

/* Dtypes do not mix (D5), so the program says where a float is rounded. */
static Status
refuse_width(const Checkpoint *c, const IrVar *var, const RtTensor *saved,
             const RtTensor *wanted)
{
    const char *type = type_text(c->arena, saved);
    return status_new(STATUS_INPUT,
                      "the variable \"%s\" is %s, but %s in \"%s\", and "
                      "restore does not cast; with a variable wide: %s write "
                      "restore(\"%s\", [wide], names = [\"%s\"]) and then "
                      "%s = %s(wide)",
                      var->name, type_text(c->arena, wanted), type, c->path,
                      type, c->folder, saved->name, var->name,
                      dtype_info[var->type.dtype].name);
}

static Status
check_type(const Checkpoint *c, const IrVar *var, const RtTensor *saved,
           const RtTensor *wanted)
{
    if (strcmp(saved->dtype, wanted->dtype) == 0 && same_shape(saved, wanted))
        return OK;
    if (same_shape(saved, wanted) && has_floats(c->arena, saved) &&
        has_floats(c->arena, wanted))
        return refuse_width(c, var, saved, wanted);
    return status_new(STATUS_INPUT,
                      "the variable \"%s\" is %s, but %s in \"%s\"; restore a "
                      "checkpoint of this program, or declare it so",
                      var->name, type_text(c->arena, wanted),
                      type_text(c->arena, saved), c->path);
}

/* A bool must be 0 or 1. */
static Status
check_bools(const Checkpoint *c, const RtTensor *saved)
{
    bool is_bool = strcmp(saved->dtype, "BOOL") == 0;
    for (size_t i = 0; is_bool && i < saved->bytes; i++) {
        if ((unsigned char)saved->data[i] > 1)
            return status_new(STATUS_INPUT,
                              "cannot read \"%s\": \"%s\" has a bool that is "
                              "neither true nor false",
                              c->path, saved->name);
    }
    return OK;
}

/* What a list asks for and the file has not may have another name there. */
static Status
check_missing(const Checkpoint *c, Names *missing, Names *unexpected)
{
    if (!missing->num)
        return OK;
    if (!ir_int(c->op->op, A_strict))
        return status_new(STATUS_INPUT,
                          "\"%s\" has no %s; of others it has %s: names = "
                          "[...] behind the list says what the file calls its "
                          "variables",
                          c->path, names_text(missing),
                          unexpected->num ? names_text(unexpected) : "none");
    return status_new(STATUS_INPUT,
                      "\"%s\" has no %s of the program; restore(\"%s\", "
                      "[...]) takes only the variables it lists",
                      c->path, names_text(missing), c->folder);
}

static Status
check_unexpected(const Checkpoint *c, Names *unexpected)
{
    if (!unexpected->num || !ir_int(c->op->op, A_strict))
        return OK;
    return status_new(STATUS_INPUT,
                      "\"%s\" has %s, which the program has not; "
                      "restore(\"%s\", [...]) takes only the variables it "
                      "lists",
                      c->path, names_text(unexpected), c->folder);
}

static Map *
by_name(Arena *a, const RtTensor *tensors, int n)
{
    Map *saved = map_new(a);
    for (int i = 0; i < n; i++)
        map_set(saved, tensors[i].name, (RtTensor *)&tensors[i]);
    return saved;
}

static RtTensor
tensor_of_variable(const Checkpoint *c, const Restored *r)
{
    const IrType *type = &r->var->type;
    RtTensor t = {.name = r->name,
                  .dtype = rt_tensor_dtype(c->arena, type->dtype),
                  .rank = type->rank,
                  .bytes = r->bytes};
    for (int k = 0; k < type->rank; k++)
        t.dims[k] = type->dims[k].c;
    return t;
}

/* Whether the tensors of a header are those of the variables. */
static Status
check_tensors(const void *cx, const RtTensor *tensors, int n)
{
    const Checkpoint *c = cx;
    Names missing = {.text = str_new(c->arena)};
    Names unexpected = {.text = str_new(c->arena)};
    Map *saved = by_name(c->arena, tensors, n), *wanted = map_new(c->arena);
    for (int i = 0; i < c->num_restored; i++) {
        RtTensor t = tensor_of_variable(c, &c->restored[i]);
        const RtTensor *found = map_get(saved, t.name);
        map_set(wanted, t.name, (char *)t.name);
        if (found)
            TRY(check_type(c, c->restored[i].var, found, &t));
        else
            add_name(&missing, t.name);
    }
    for (int i = 0; i < n; i++)
        if (!map_get(wanted, tensors[i].name))
            add_name(&unexpected, tensors[i].name);
    TRY(check_missing(c, &missing, &unexpected));
    return check_unexpected(c, &unexpected);
}

/* Where the data of a tensor belong. */
static char *
place_of(const void *cx, const RtTensor *t)
{
    const Checkpoint *c = cx;
    return map_get(c->places, t->name);
}

/* The folder given is a file, which may be that in the folder meant. */
static Status
is_no_folder(const Checkpoint *c)
{
    const char *slash = strrchr(c->folder, '/');
    const char *name = slash ? slash + 1 : c->folder;
    const char *meant = strcmp(name, FILE_NAME) != 0 ? ""
                        : slash
                            ? arena_printf(c->arena, ": restore(\"%.*s\")",
                                           (int)(slash - c->folder), c->folder)
                            : ": restore(\".\")";
    return status_new(STATUS_INPUT,
                      "\"%s\" is a file, and restore takes the folder that has "
                      "variables.safetensors in it%s",
                      c->folder, meant);
}

static Status
restore(Checkpoint *c)
{
    int n;
    RtTensor *tensors;
    if (access(c->path, F_OK) != 0 && errno == ENOENT)
        return status_new(STATUS_INPUT,
                          "there is no checkpoint \"%s\": save(\"%s\") makes "
                          "it, in a run before or earlier in this one",
                          c->folder, c->folder);
    if (access(c->path, F_OK) != 0 && errno == ENOTDIR)
        return is_no_folder(c);
    c->places = map_new(c->arena);
    for (int i = 0; i < c->num_restored; i++)
        map_set(c->places, c->restored[i].name, c->restored[i].at);
    RtTensorsUser user = {check_tensors, place_of, c};
    TRY(rt_tensors_read(c->arena, c->path, &user, &tensors, &n));
    for (int i = 0; i < n; i++)
        if (tensors[i].data)
            TRY(check_bools(c, &tensors[i]));
    return OK;
}

/* Gives the other processes what the chief has read. */
static Status
share(const Checkpoint *c, RtRun *run)
{
    for (int i = 0; i < c->num_restored; i++)
        TRY(rt_broadcast(run, 0, c->restored[i].at, c->restored[i].bytes));
    return OK;
}

/* Gives all devices what has been restored in place. */
static Status
copy_to_devices(const Checkpoint *c, const RtRun *run)
{
    for (int i = 0; i < c->num_restored; i++)
        for (int d = 0; c->restored[i].in_place && d < run->num_devices; d++) {
            const Restored *r = &c->restored[i];
            RtDevicePtr to = variable_on(run, d, r->var);
            if (rt_ptr_host(to) != r->at)
                rt_copy_in(to, r->at, r->bytes);
        }
    return rt_devices_status(run);
}

int32_t
rt_op_restore(RtInvocation *inv, const RtHostOp *h)
{
    Status st = OK;
    RtRun *run = inv->executor->run;
    Checkpoint c = checkpoint_of(inv, h, 0);
    list_restored(&c, run);
    if (rt_is_chief(run))
        st = restore(&c);
    if (!st)
        st = share(&c, run);
    return finish(&c, st ? st : copy_to_devices(&c, run));
}

/* ---- summary ------------------------------------------------------------ */

static RtSummary
summary_of(RtInvocation *inv, const RtHostOp *h)
{
    RtExecutor *executor = inv->executor;
    const RtValue *v = &h->in[0];
    char *scratch = executor->copies;
    RtSummary s = {.is_scalar = v->rank == 0,
                   .dtype = v->dtype,
                   .n = rt_value_count(v, executor->dims),
                   .data = rt_read_value(inv, v, &scratch)};
    memcpy(&s.step, rt_read_value(inv, &h->in[1], &scratch), sizeof s.step);
    return s;
}

/* Main's text is free between two lines. */
static int32_t
summarize_in_main(RtInvocation *inv, const RtHostOp *h)
{
    Str *tag = &inv->executor->lines.text;
    RtRun *run = inv->executor->run;
    if (!run->options->log_dir)
        return EXEC_OK;
    Status st = rt_settle(run);
    if (!st && run->events) {
        tag->len = 0;
        str_add(tag, ""); /* a tag may be empty */
        RtSummary s = summary_of(inv, h);
        rt_add_text(tag, inv, h, 2);
        st = rt_summary_write(run, str_text(tag), &s);
    }
    return st ? rt_fault_status(inv, h, st) : EXEC_OK;
}

static void
pack(RtInvocation *inv, const RtHostOp *h)
{
    RtExecutor *executor = inv->executor;
    Str *line = &executor->lines.text;
    RtSummary s = summary_of(inv, h);
    if (s.is_scalar)
        rt_note_scalar(executor->run, h->op, s.dtype, s.data);
    rt_summary_pack(line, &s);
    rt_add_text(line, inv, h, 2);
    if (h->each)
        str_addf(line, "/replica_%d", executor->replica);
}

/* In a step it is a line, which all replicas have, if only an empty one. */
int32_t
rt_op_summary(RtInvocation *inv, const RtHostOp *h)
{
    RtExecutor *executor = inv->executor;
    RtLines *lines = &executor->lines;
    bool is_kept =
        executor->run->options->log_dir && (executor->replica <= 0 || h->each);
    if (executor->replica < 0)
        return summarize_in_main(inv, h);
    if (rt_is_ahead(executor))
        return rt_defer(inv, h, is_kept);
    if (is_kept)
        pack(inv, h);
    VEC_PUSH(executor->arena, lines->lines,
             ((RtLine){lines->text.len, executor->met, true}));
    return EXEC_OK;
}
