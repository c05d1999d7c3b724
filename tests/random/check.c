/*
 * check.c - whether a program does the same on every number of devices
 *
 * Programs are compared by their output: `{x}` prints the shortest digits that
 * read back to the same bits.  Compiled code and the interpreter agree to the
 * last digit; programs whose result does not depend on the number of devices
 * agree to 1e-11.
 */
#include "tests/random/check.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "backend/backend.h"
#include "frontend/frontend.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"
#include "runtime/run/run.h"
#include "tests/random/life.h"
#include "tests/ref/interp.h"

enum { SEED = 7, MOST_REPLICAS = 16 };

static const double tolerance = 1e-11;

/* How a program is run on n devices. */
typedef struct Way {
    int n, level;
    const char *strategy, *cross, *parameters; /* NULL: the usual */
    int64_t pack;
    bool threads;
} Way;

/* ---- the options in a program ------------------------------------------- */

/* The word after "#! NAME " in text, or NULL. */
static const char *
header(Arena *a, const char *text, const char *name)
{
    const char *mark = arena_printf(a, "#! %s", name);
    const char *at = strstr(text, mark);
    if (!at)
        return NULL;
    at += strlen(mark);
    at += *at == ' ';
    return arena_strndup(a, at, strcspn(at, "\n"));
}

static int
number(Arena *a, const char *text, const char *name)
{
    const char *word = header(a, text, name);
    return word ? atoi(word) : 0;
}

/* The number that a list begins with, which is passed; 0 at its end, and for
 * one that is too large. */
static int
next_number(const char **list)
{
    char *end;
    long n = strtol(*list, &end, 10);
    *list = end;
    return n > 0 && n <= MOST_REPLICAS ? (int)n : 0;
}

/* The device of n that has the number of an option, modulo n; NULL: none. */
static const char *
device_of(Arena *a, const char *text, const char *name, int n)
{
    return header(a, text, name)
               ? arena_printf(a, "cpu:%d", number(a, text, name) % n)
               : NULL;
}

static Way
way_of(Arena *a, const char *text, int n)
{
    Way w = {.n = n,
             .level = number(a, text, "level"),
             .strategy = header(a, text, n > 1 ? "strategy" : "one"),
             .cross = header(a, text, "cross"),
             .parameters = device_of(a, text, "parameters", n),
             .pack = number(a, text, "pack"),
             .threads = number(a, text, "threads") != 0};
    bool in_halves = w.cross && !strncmp(w.cross, "hierarchical_copy", 17);
    const char *one = device_of(a, text, "reduce_to", n);
    if (n == 1 || (in_halves && n % 2))
        w.cross = NULL;
    else if (one)
        w.cross = arena_printf(a, "%s:reduce_to_device=%s", w.cross, one);
    return w;
}

/* ---- comparing output --------------------------------------------------- */

/* The number that *at begins with, which is passed; false: none. */
static bool
take_number(const char **at, double *out)
{
    char *end;
    if (!isdigit(**at) && **at != '-' && strncmp(*at, "nan", 3) != 0 &&
        strncmp(*at, "inf", 3) != 0)
        return false;
    *out = strtod(*at, &end);
    if (end == *at)
        return false;
    *at = end;
    return true;
}

static bool
is_near(double x, double y)
{
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    double size = fmax(1, fmax(fabs(x), fabs(y)));
    return x == y || fabs(x - y) <= tolerance * size;
}

/* How tensors are laid out depends on their digits: spaces mean nothing. */
static void
skip_spaces(const char **at)
{
    while (isspace(**at))
        (*at)++;
}

/* Where x and y are no longer the same but for rounding; NULL: nowhere. */
static const char *
first_difference(const char *x, const char *y)
{
    for (;;) {
        double p, q;
        skip_spaces(&x);
        skip_spaces(&y);
        const char *at = x;
        if (take_number(&x, &p)) {
            if (!take_number(&y, &q) || !is_near(p, q))
                return at;
        } else if (*x != *y) {
            return at;
        } else if (!*x) {
            return NULL;
        } else {
            x++;
            y++;
        }
    }
}

static const char *
line_around(Arena *a, const char *text, size_t at)
{
    size_t begin = at, end = at;
    while (begin && text[begin - 1] != '\n')
        begin--;
    while (text[end] && text[end] != '\n')
        end++;
    return arena_strndup(a, text + begin, end - begin);
}

/* Names the first line that is another. */
static const char *
difference(Arena *a, const char *what, int n, const char *have,
           const char *want)
{
    size_t i = 0;
    while (have[i] && have[i] == want[i])
        i++;
    return arena_printf(a, "%s on %d: \"%s\" instead of \"%s\"", what, n,
                        line_around(a, have, i), line_around(a, want, i));
}

/* ---- the program, executed ---------------------------------------------- */

static const char *
failure(Arena *a, Status st)
{
    const char *text = arena_strdup(a, status_message(st));
    status_free(st);
    return text;
}

/* Front-end IR without grad operations: the text that states the program's
 * meaning. */
static IrModule *
front_end(Arena *a, const char *text, const Way *w, const PassOptions *passes,
          const char **wrong)
{
    FeOptions options = {
        .path = "random.tfd",
        .text = text,
        .len = strlen(text),
        .strategy = w->strategy,
        .devices = w->n > 1 ? arena_printf(a, "cpu:0-%d", w->n - 1) : "cpu:0",
        .cross = w->cross,
        .parameters = w->parameters,
        .widen = true,
    };
    Diag *d = diag_new(a);
    IrModule *m = fe_compile(a, intern_new(a), d, &options);
    if (!m || !ir_verify(m, d) ||
        !pass_run_pipeline(m, d, passes, "differentiate")) {
        *wrong = arena_printf(a, "refused on %d: %s", w->n, diag_text(d, a));
        return NULL;
    }
    return m;
}

static const char *
interpret(Arena *a, IrModule *m, const char **wrong)
{
    InterpParam seed = {"random.seed", scalar_int(DT_i64, SEED)};
    InterpOptions options = {.seed = SEED,
                             .params = &seed,
                             .num_params = ir_param_find(m, seed.name) != NULL};
    Interp *in = interp_new(m, &options);
    Str out = str_new(a);
    Status st = interp_run(in, &out);
    if (st)
        *wrong = arena_printf(a, "interpreter on %d: %s", m->num_replicas,
                              failure(a, st));
    interp_release(in);
    return str_text(&out);
}

/* The plan of m, as tfd-run reads it. */
static Status
make_plan(Arena *a, IrModule *m, const Way *w, Plan **plan)
{
    const char *bytes;
    size_t len;
    BeKernels kernels = {0};
    BeCode code = {0};
    BeOptions options = {
        .level = w->level, .num_threads = 1, .verify = w->level == 0};
    if (!be_kernels_build(a, m, options.targets, &kernels))
        return status_new(STATUS_INPUT, "%s", diag_text(m->diag, a));
    TRY(be_compile(a, m, &kernels, &options, &code));
    TRY(plan_write_bytes(be_plan(a, m, &code), a, &bytes, &len));
    return plan_read_bytes(a, "random.tfp", bytes, len, plan);
}

static void
count_step(void *data, int64_t step)
{
    *(int64_t *)data = step;
}

static RtOptions
options_of(const Way *w)
{
    return (RtOptions){.seed = SEED,
                       .pipeline_threads = w->threads,
                       .num_threads = 1,
                       .timeout = MINUTE / 2.0,
                       .err = stderr};
}

static Status
run_once(Arena *a, const Plan *plan, RtOptions options, const char **out)
{
    size_t len;
    char *text;
    options.out = open_memstream(&text, &len);
    Status st = rt_run(plan, &options);
    fclose(options.out);
    *out = arena_strndup(a, text, len);
    free(text);
    return st;
}

/* The numbers of devices that n replicas can run on, from 1 to n. */
typedef struct Divisors {
    int num, at[MOST_REPLICAS];
} Divisors;

static Divisors
divisors_of(int n)
{
    Divisors d = {0};
    for (int i = 1; i <= n; i++)
        if (n % i == 0)
            d.at[d.num++] = i;
    return d;
}

static const char *
list_of(Arena *a, int num_devices)
{
    return arena_printf(a, "cpu:0-%d", num_devices - 1);
}

/* With replicas that share devices, in each way that there is. */
static Status
run_shared(Arena *a, const Plan *plan, const Way *w, const char *want,
           const char **wrong)
{
    Divisors d = divisors_of(w->n);
    RtOptions options = options_of(w);
    for (int i = 0; i < d.num - 1 && !*wrong; i++) {
        const char *out;
        options.devices = list_of(a, d.at[i]);
        TRY(run_once(a, plan, options, &out));
        if (strcmp(out, want) != 0)
            *wrong =
                difference(a, arena_printf(a, "sharing %s", options.devices),
                           w->n, out, want);
    }
    return OK;
}

/* Stopped after a step and resumed: on other devices, if there is a choice. */
static const char *
run_halves(Arena *a, const Plan *plan, const Way *w, int64_t steps,
           const char *want)
{
    size_t seed = strlen(want);
    Divisors d = divisors_of(w->n);
    int first = (int)(seed % (size_t)d.num);
    int others = d.num > 1 ? d.num - 1 : 1;
    int second = (first + 1 + (int)(seed / 8 % (size_t)others)) % d.num;
    RtOptions options = options_of(w);
    options.devices = list_of(a, d.at[first]);
    const char *then = list_of(a, d.at[second]);
    const char *differs =
        life_check(a, plan, &options, then, steps, seed, want);
    return differs ? arena_printf(a, "resumed on %d: %s, then %s: %s", w->n,
                                  options.devices, then, differs)
                   : NULL;
}

/* Runs it with each replica on a device of its own; with replicas that share
 * devices; and once more, in two halves, when it has steps. */
static Status
run_plan(Arena *a, const Plan *plan, const Way *w, const char **out,
         const char **wrong)
{
    int64_t steps = 0;
    RtOptions options = options_of(w);
    options.on_step = count_step;
    options.on_step_data = &steps;
    TRY(run_once(a, plan, options, out));
    if (w->n > 1)
        TRY(run_shared(a, plan, w, *out, wrong));
    if (!*wrong && steps)
        *wrong = run_halves(a, plan, w, steps, *out);
    return OK;
}

static const char *
execute(Arena *a, IrModule *m, const Way *w, const PassOptions *passes,
        const char **wrong)
{
    Plan *plan = NULL;
    const char *out = "";
    if (!pass_run_pipeline(m, m->diag, passes, NULL)) {
        *wrong =
            arena_printf(a, "passes on %d: %s", w->n, diag_text(m->diag, a));
        return out;
    }
    Status st = make_plan(a, m, w, &plan);
    if (!st)
        st = run_plan(a, plan, w, &out, wrong);
    if (st)
        *wrong = arena_printf(a, "run on %d: %s", w->n, failure(a, st));
    return out;
}

/* ---- all of it ---------------------------------------------------------- */

static const char *
check_on(Arena *a, const char *text, int n, const char **out)
{
    const char *wrong = NULL;
    Way w = way_of(a, text, n);
    PassOptions passes = {.level = w.level, .verify_each = true};
    IrModule *m = front_end(a, text, &w, &passes, &wrong);
    if (!wrong && w.pack > 0)
        m->bytes_per_pack = w.pack;
    const char *want = wrong ? "" : interpret(a, m, &wrong);
    if (!wrong)
        *out = execute(a, m, &w, &passes, &wrong);
    if (!wrong && strcmp(*out, want) != 0)
        wrong = difference(a, "difference", n, *out, want);
    return wrong;
}

const char *
check_program(Arena *a, const char *text)
{
    const char *first = NULL, *wrong = NULL;
    const char *replicas = header(a, text, "replicas");
    bool invariant = header(a, text, "invariant") != NULL;
    if (!replicas)
        replicas = "1 2 3 4 5";
    for (int n; (n = next_number(&replicas)) > 0;) {
        const char *out = "";
        wrong = check_on(a, text, n, &out);
        if (wrong)
            return wrong;
        if (!first)
            first = out;
        if (invariant && first_difference(out, first))
            return difference(a, "varies", n, out, first);
    }
    return NULL;
}

/* ---- in a process of its own -------------------------------------------- */

_Noreturn static void
check_and_tell(const char *text, unsigned seconds, int to)
{
    alarm(seconds);
    dup2(to, STDERR_FILENO);
    Arena *a = arena_new(NULL, "check");
    const char *wrong = check_program(a, text);
    for (size_t len = wrong ? strlen(wrong) : 0; len;) {
        ssize_t n = write(to, wrong, len);
        if (n <= 0)
            break;
        wrong += n;
        len -= (size_t)n;
    }
    arena_release(a);
    _exit(0);
}

static const char *
read_all(Arena *a, int from)
{
    Str s = str_new(a);
    char bytes[4096];
    ssize_t n;
    while ((n = read(from, bytes, sizeof bytes)) > 0 ||
           (n < 0 && errno == EINTR))
        if (n > 0)
            str_addn(&s, bytes, (size_t)n);
    return str_text(&s);
}

const char *
check_apart(Arena *a, const char *text, unsigned seconds)
{
    int ends[2], status;
    if (pipe(ends) != 0)
        return "no pipe on 0: out of file descriptors";
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        check_and_tell(text, seconds, ends[1]);
    }
    close(ends[1]);
    const char *wrong = read_all(a, ends[0]);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return "no process on 0: it could not be made";
    if (WIFSIGNALED(status))
        return arena_printf(a, "signal %d on 0: the process ended\n%s",
                            WTERMSIG(status), wrong);
    if (WEXITSTATUS(status) != 0)
        return arena_printf(a, "exit %d on 0: the process ended\n%s",
                            WEXITSTATUS(status), wrong);
    return *wrong ? wrong : NULL;
}
