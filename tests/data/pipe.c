/*
 * pipe.c - runs pipelines for tests, and prints their elements
 */
#include "tests/data/pipe.h"
#include "tests/unit/unit.h"

#include <time.h>
#include <unistd.h>
#include "ir/text/text.h"
#include "ir/verify/verify.h"

/* ---- functions of elements ---------------------------------------------- */

static Status
twice(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const int64_t *x = in[0];
    (void)self, (void)rows;
    *(int64_t *)out[0] = 2 * *x;
    return OK;
}

static Status
pair(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const int64_t *x = in[0];
    (void)self, (void)rows;
    *(int64_t *)out[0] = *x;
    *(int64_t *)out[1] = *x + 1;
    return OK;
}

static Status
sums(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const int64_t *x = in[0];
    (void)self, (void)rows;
    *(int64_t *)out[0] = x[0] + x[1];
    return OK;
}

static Status
sum_of_pair(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const int64_t *x = in[0], *y = in[1];
    (void)self, (void)rows;
    *(int64_t *)out[0] = *x + *y;
    return OK;
}

static Status
halves(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const int64_t *x = in[0];
    float *y = out[0];
    (void)self;
    for (int64_t i = 0; i < rows; i++)
        y[i] = (float)x[i] / 2;
    return OK;
}

static Status
no5(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const int64_t *x = in[0];
    (void)self, (void)rows;
    if (*x == 5)
        return status_new(STATUS_INPUT, "there is a 5");
    *(int64_t *)out[0] = *x;
    return OK;
}

static Status
odd(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const int64_t *x = in[0];
    (void)self, (void)rows;
    if (*x == 99)
        return status_new(STATUS_INPUT, "there is a 99");
    *(bool *)out[0] = *x % 2 != 0;
    return OK;
}

static Status
whole(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    (void)self, (void)in;
    *(bool *)out[0] = rows == 4;
    return OK;
}

_Atomic int pipe_counted;
_Atomic pid_t pipe_thread;
_Atomic int64_t pipe_slow;
atomic_bool pipe_stopped;

static Status
counted(RtElementFn *self, void *const *in, void *const *out, int64_t rows)
{
    const struct timespec pause = {1, 100000000};
    const int64_t *x = in[0];
    (void)self, (void)rows;
    *(int64_t *)out[0] = *x;
    if (pipe_slow && *x == pipe_slow)
        nanosleep(&pause, NULL);
    pipe_thread = gettid();
    pipe_counted++;
    return OK;
}

static struct {
    const char *name;
    RtElementFn fn;
} functions[] = {{"twice", {twice}},    {"pair", {pair}},
                 {"sums", {sums}},      {"sum_of_pair", {sum_of_pair}},
                 {"halves", {halves}},  {"no5", {no5}},
                 {"odd", {odd}},        {"whole", {whole}},
                 {"counted", {counted}}};

static RtElementFn *
find_function(RtDataClient *c, const char *name)
{
    (void)c;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i].fn;
    fail_msg("no function %s", name);
    return NULL;
}

static bool
is_stopped(RtDataClient *c)
{
    (void)c;
    return atomic_load(&pipe_stopped);
}

static RtDataClient client = {find_function, is_stopped};

static const char function_text[] =
    "func @twice(%x: i64) host {\n"
    "  %0: i64 = add %x, %x\n"
    "  return %0\n"
    "}\n"
    "func @pair(%x: i64) host {\n"
    "  %0: i64 = constant {dims=[] dtype=i64 data=[1]}\n"
    "  %1: i64 = add %x, %0\n"
    "  return %x, %1\n"
    "}\n"
    "func @sum_of_pair(%x: i64, %y: i64) host {\n"
    "  %0: i64 = add %x, %y\n"
    "  return %0\n"
    "}\n"
    "func @sums(%x: i64[2]) host {\n"
    "  %0: i64 = sum %x {axes=[0]}\n"
    "  return %0\n"
    "}\n"
    "func @halves(%x: i64[b4]) host {\n"
    "  %0: f32[b4] = cast %x {dtype=f32}\n"
    "  %1: f32 = constant {dims=[] dtype=f32 data=[0.5]}\n"
    "  %2: f32[b4] = mul %0, %1\n"
    "  return %2\n"
    "}\n"
    "func @no5(%x: i64) host {\n"
    "  %0: i64 = constant {dims=[] dtype=i64 data=[5]}\n"
    "  %1: bool = ne %x, %0\n"
    "  assert %1 {format=\"there is a 5\"}\n"
    "  return %x\n"
    "}\n"
    "func @counted(%x: i64) host {\n"
    "  return %x\n"
    "}\n"
    "func @odd(%x: i64) host {\n"
    "  %0: i64 = constant {dims=[] dtype=i64 data=[2]}\n"
    "  %1: i64 = mod %x, %0\n"
    "  %2: i64 = constant {dims=[] dtype=i64 data=[1]}\n"
    "  %3: bool = eq %1, %2\n"
    "  return %3\n"
    "}\n"
    "func @whole(%x: i64[b4]) host {\n"
    "  %0: i64 = dim_size {dims=[b4]}\n"
    "  %1: i64 = constant {dims=[] dtype=i64 data=[4]}\n"
    "  %2: bool = eq %0, %1\n"
    "  return %2\n"
    "}\n"
    "func @main() main {\n"
    "  return\n"
    "}\n";

/* ---- making and running ------------------------------------------------- */

static const IrModule *
parse(Arena *a, const Pipe *pipe)
{
    int workers = pipe->workers ? pipe->workers : 1;
    int replicas = workers * (pipe->replicas ? pipe->replicas : 1);
    const char *iter = pipe->iter;
    if (!iter)
        iter = arena_printf(a, "of @data shard %s",
                            pipe->shard ? pipe->shard : "auto");
    const char *second = "";
    if (pipe->second)
        second = arena_printf(a, "dataset @second {\n%s\n}\n", pipe->second);
    const char *text = arena_printf(
        a,
        "tfd-ir 1 phase ir\n"
        "source 0 \"test.tfd\"\n"
        "strategy multi_worker_mirrored devices \"cpu:0\" "
        "workers %d replicas %d\n"
        "symbols b1 <= 1 alone, b2 <= 2 alone, b3 <= 3 alone, "
        "b4 <= 4 alone, b5 <= 5 alone, b8 <= 8 alone, "
        "n <= 8, N <= 64\n"
        "%sdataset @data at 1:9+4 {\n%s\n}\n"
        "iter @it %s\n%s",
        workers, replicas, second, pipe->stages, iter, function_text);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "test.tir", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (!m || !ir_verify(m, d)) {
        diag_print(d, stderr);
        fail_msg("the pipeline is no IR:\n%s", pipe->stages);
    }
    return m;
}

static void
close_iter(void *it)
{
    rt_iter_close(it);
}

Status
pipe_open(Arena *a, const Pipe *pipe, PipeRun *out)
{
    const IrModule *m = parse(a, pipe);
    RtDataOptions options = {.dir = pipe->dir,
                             .seed = pipe->seed,
                             .threads = pipe->threads,
                             .first_local = pipe->first,
                             .num_local = pipe->local,
                             .client = &client};
    out->last = &VEC_LAST(ir_dataset_find(m, "data")->stages);
    out->replicas = m->num_replicas;
    out->equal = m->iters.data[0]->whole && m->iters.data[0]->rows < 0;
    TRY(rt_iter_new(m, m->iters.data[0], &options, &out->it));
    arena_on_release(a, close_iter, out->it);
    return OK;
}

PipeRun
pipe_run(Arena *a, const Pipe *pipe)
{
    PipeRun run = {0};
    Status st = pipe_open(a, pipe, &run);
    if (st) {
        status_report(st, "pipe", stderr);
        status_free(st);
        fail();
    }
    return run;
}

/* ---- output ------------------------------------------------------------- */

/* Element *at and those after it, under the dimensions from axis on; rows < 0:
 * the type says how many. */
static void
add_elements(Str *s, const IrType *t, const void *data, int64_t rows, int axis,
             int64_t *at)
{
    if (axis == t->rank) {
        Scalar x = scalar_load(t->dtype, data, (*at)++);
        if (dtype_is_float(t->dtype))
            str_add_float(s, x.f, true);
        else
            str_addf(s, "%lld", (long long)x.i);
        return;
    }
    int64_t n = axis == 0 && rows >= 0 ? rows : t->dims[axis].c;
    str_add(s, "[");
    for (int64_t i = 0; i < n; i++) {
        str_add(s, i ? " " : "");
        add_elements(s, t, data, rows, axis + 1, at);
    }
    str_add(s, "]");
}

void
pipe_add_part(Str *s, const PipeRun *run, int replica)
{
    int64_t rows = run->equal ? -1 : rt_iter_rows(run->it, replica);
    for (int i = 0; i < run->last->types.len; i++) {
        const void *data = rt_iter_data(run->it, replica, i);
        int64_t at = 0;
        assert_int_equal((uintptr_t)data % 64, 0);
        str_add(s, i ? "+" : "");
        add_elements(s, &run->last->types.data[i], data, rows, 0, &at);
    }
}

static void
add_step(Str *s, const PipeRun *run)
{
    int64_t all = 0;
    for (int r = 0; r < run->replicas; r++) {
        str_add(s, r ? "/" : "");
        pipe_add_part(s, run, r);
        all += rt_iter_rows(run->it, r);
    }
    assert_int_equal(all, rt_iter_all_rows(run->it));
}

static void
add_error(Str *s, Status st)
{
    str_addf(s, "error: %s", status_message(st));
    status_free(st);
}

/* The next step, or the error that ends the pass; whether there is more. */
static bool
add_next(Str *s, const PipeRun *run)
{
    bool more = false;
    Status st = rt_iter_has_next(run->it, &more);
    if (!st && more)
        st = rt_iter_next(run->it);
    if (st || more)
        str_add(s, s->len ? "; " : "");
    if (st)
        add_error(s, st);
    else if (more)
        add_step(s, run);
    return !st && more;
}

const char *
pipe_rest(Arena *a, const PipeRun *run)
{
    Str s = str_new(a);
    while (add_next(&s, run))
        ;
    return str_text(&s);
}

const char *
pipe_pass(Arena *a, const PipeRun *run)
{
    assert_null(rt_iter_open(run->it, rt_iter_passes(run->it)));
    return pipe_rest(a, run);
}

PipeRun
pipe_archive(Arena *a, const Pipe *pipe, const PipeRun *from)
{
    RtArchive to = rt_archive_writer(a, 0);
    assert_null(rt_iter_archive(from->it, &to, NULL));
    RtArchive back = rt_archive_reader(a, to.data, to.len);
    PipeRun run = pipe_run(a, pipe);
    assert_null(rt_iter_archive(run.it, &back, NULL));
    assert_null(rt_archive_end(&back));
    return run;
}

const char *
pipe_pass_in_turns(Arena *a, const Pipe *pipe)
{
    Str s = str_new(a);
    PipeRun run = pipe_run(a, pipe);
    assert_null(rt_iter_open(run.it, rt_iter_passes(run.it)));
    do
        run = pipe_archive(a, pipe, &run);
    while (add_next(&s, &run));
    return str_text(&s);
}

static Status
go_on_writing(Arena *a, const PipeRun *run)
{
    enum { MOST_STEPS = 20 };
    RtArchive to = rt_archive_writer(a, 0);
    bool more = true;
    for (int i = 0; i < MOST_STEPS && more; i++) {
        TRY(rt_iter_has_next(run->it, &more));
        if (more)
            TRY(rt_iter_next(run->it));
        rt_archive_clear(&to);
        TRY(rt_iter_archive(run->it, &to, NULL));
    }
    return OK;
}

void
pipe_go_on_from(const Pipe *pipe, const RtArchive *state)
{
    Arena *a = arena_new(NULL, "a state");
    PipeRun run = pipe_run(a, pipe);
    RtArchive reader = rt_archive_reader(a, state->data, state->len);
    assert_null(rt_iter_archive(run.it, &reader, NULL));
    Status st = rt_archive_end(&reader);
    if (!st)
        st = go_on_writing(a, &run);
    status_free(st);
    arena_release(a);
}

void
pipe_go_on_from_far(Arena *a, const Pipe *pipe)
{
    static const int64_t far[] = {INT64_MAX, RT_MOST_POSITION};
    PipeRun run = pipe_run(a, pipe);
    RtArchive state = rt_archive_writer(a, 0);
    int64_t was;
    assert_null(rt_iter_open(run.it, 0));
    assert_null(rt_iter_next(run.it));
    assert_null(rt_iter_archive(run.it, &state, NULL));
    for (size_t at = 0; at + sizeof was <= state.len; at++) {
        memcpy(&was, state.data + at, sizeof was);
        for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
            memcpy(state.data + at, &far[i], sizeof far[i]);
            pipe_go_on_from(pipe, &state);
        }
        memcpy(state.data + at, &was, sizeof was);
    }
}

const char *
pipe_steps(Arena *a, const Pipe *pipe)
{
    PipeRun run;
    Str s = str_new(a);
    Status st = pipe_open(a, pipe, &run);
    if (!st)
        return pipe_pass(a, &run);
    add_error(&s, st);
    return str_text(&s);
}

Numbers
pipe_numbers(Arena *a, const PipeRun *run)
{
    Numbers numbers = {0};
    bool more;
    assert_null(rt_iter_open(run->it, rt_iter_passes(run->it)));
    for (;;) {
        assert_null(rt_iter_has_next(run->it, &more));
        if (!more)
            return numbers;
        assert_null(rt_iter_next(run->it));
        for (int r = 0; r < run->replicas; r++) {
            const int64_t *data = rt_iter_data(run->it, r, 0);
            for (int64_t i = 0; i < rt_iter_rows(run->it, r); i++)
                VEC_PUSH(a, numbers, data[i]);
        }
    }
}
