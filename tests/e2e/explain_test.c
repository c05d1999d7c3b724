/*
 * explain_test.c - tfdc --explain accounts for every operation that carries a
 * reason, and for what replicas share
 *
 * The expected numbers are read from the placed IR (how many operations each
 * rule inserted, for which source lines) and from the IR before bucket (the
 * source lines of the collectives).
 */
#include <ctype.h>
#include <stdio.h>
#include "tests/e2e/run.h"
#include "tests/unit/arena.h"
#include "tests/unit/unit.h"
#include "tests/unit/sweep.h"

static const struct {
    const char *program, *options;
} programs[] = {
    {"charlm", "--devices cpu:0-1"},
    {"convnet", "--devices cpu:0-1"},
    {"linear", "--devices cpu:0-1"},
    {"bigram", "--devices cpu:0-1"},
    {"linear", "--devices cpu:0-1 --strategy central_storage"},
    {"bigram", "--devices cpu:0-1 --collectives bytes_per_pack=1024"},
};
enum { NUM_PROGRAMS = sizeof programs / sizeof *programs };

static const char *
line_end(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* ---- the IR ------------------------------------------------------------- */

/* "file.tfd:3:7" of "1/3:7+2", as the IR writes where something is. */
static const char *
loc_text(Arena *a, const char *ir, const char *loc)
{
    unsigned file = 0, line, col;
    if (sscanf(loc, "%u/%u:%u", &file, &line, &col) != 3) {
        file = 0;
        assert_int_equal(sscanf(loc, "%u:%u", &line, &col), 2);
    }
    const char *source = strstr(ir, arena_printf(a, "\nsource %u \"", file));
    assert_non_null(source);
    const char *name = strchr(source, '"') + 1;
    return arena_printf(a, "%.*s:%u:%u", (int)strcspn(name, "\""), name, line,
                        col);
}

/* Behind the cause that is quoted at text. */
static const char *
after_cause(const char *text)
{
    assert_int_equal(*text, '"');
    for (text++; *text != '"'; text++)
        text += *text == '\\';
    return text + 1;
}

static int
num_of_rule(const char *ir, const char *because)
{
    int n = 0;
    for (; (ir = strstr(ir, because)); ir++)
        n++;
    return n;
}

/* ---- the page ----------------------------------------------------------- */

/* How many operations a line of the page counts: "2 sub, 2 write, 8 bytes". */
static int
num_of_line(const char *line)
{
    const char *at = strstr(line, "  ");
    int sum = 0, n, len;
    char kind[64];
    for (at = strpbrk(at + 2, " ") + 2;
         sscanf(at, "%d %63[a-z0-9_]%n", &n, kind, &len) == 2; at += 2) {
        sum += strcmp(kind, "bytes") != 0 ? n : 0;
        at += len;
        if (strncmp(at, ", ", 2) != 0)
            break;
    }
    return sum;
}

/* The rule of a line below this heading; under "collectives" it is in the
 * line. */
static bool
is_of_rule(const char *line, const char *heading, const char *rule)
{
    size_t n = strlen(rule);
    if (strncmp(heading, "collectives:", 12) != 0)
        return !strncmp(heading, rule, n) && heading[n] == ':';
    const char *by = strstr(line, ", by ") + 5;
    return !strncmp(by, rule, n) && by[n] == ':';
}

static const char *
inserted_part(Arena *a, const char *page)
{
    const char *begin = strstr(page, "\ninserted: ");
    const char *end = strstr(page, "\nmemory of each");
    assert_non_null(begin);
    assert_non_null(end);
    return arena_strndup(a, begin + 1, (size_t)(end - begin));
}

/* How many operations of the rule there are in the lines with this place; any
 * place is "". */
static int
num_explained(const char *page, const char *rule, const char *place)
{
    const char *heading = page;
    int sum = 0;
    for (const char *l = page; *l; l = line_end(l)) {
        if (isalpha((unsigned char)*l))
            heading = l;
        else if (*l == ' ' && is_of_rule(l, heading, rule) &&
                 !strncmp(l + 2, place, strlen(place)))
            sum += num_of_line(l);
    }
    return sum;
}

/* ---- the tests ---------------------------------------------------------- */

static const char *
compile(Arena *a, int i, const char *options)
{
    return run_ok(a, "tfdc %s/docs/examples/%s.tfd %s %s", getenv("TFD_ROOT"),
                  programs[i].program, programs[i].options, options)
        .out;
}

static void
check_total(const char *page, const char *ir)
{
    int total = 0;
    assert_int_equal(sscanf(page, "inserted: %d operations", &total), 1);
    assert_int_equal(total, num_of_rule(ir, " because "));
}

/* The rule of each reason has as many operations on the page as in the IR, and
 * its source line is there. */
static void
check_reasons(Arena *a, const char *page, const char *ir)
{
    for (const char *at = ir; (at = strstr(at, " because ")); at++) {
        const char *word = at + strlen(" because ");
        int n = (int)strcspn(word, " ");
        const char *rule = arena_printf(a, "%.*s", n, word);
        const char *because = arena_printf(a, " because %s ", rule);
        assert_int_equal(num_explained(page, rule, ""),
                         num_of_rule(ir, because));
        const char *loc = after_cause(word + n + 1) + strlen(" at ");
        const char *place = arena_printf(a, "%s  ", loc_text(a, ir, loc));
        assert_true(num_explained(page, rule, place) > 0);
    }
}

static void
every_reason_is_explained(void **state)
{
    Arena *a = *state;
    for (int i = sweep_first(NUM_PROGRAMS); i < NUM_PROGRAMS;
         i = sweep_next(i)) {
        const char *ir = compile(a, i, "--to placed");
        const char *page = inserted_part(a, compile(a, i, "--explain"));
        check_total(page, ir);
        check_reasons(a, page, ir);
    }
}

/* Whether a line of the page counts operations of this kind. */
static bool
has_kind(Arena *a, const char *line, const char *kind)
{
    const char *found = strstr(line, arena_printf(a, " %s", kind));
    return found && strchr(",: ", found[strlen(kind) + 1]) &&
           isdigit((unsigned char)found[-1]);
}

/* Operations that move bytes state how many; collectives always move some. */
static void
check_line(Arena *a, const char *line)
{
    static const char *const moving[] = {"all_reduce_start",
                                         "all_reduce_done",
                                         "launch",
                                         "fetch",
                                         "fetch_var",
                                         "read",
                                         "write",
                                         "kernel"};
    for (size_t k = 0; k < sizeof moving / sizeof *moving; k++)
        if (has_kind(a, line, moving[k]))
            assert_non_null(strstr(line, " bytes"));
    if (strstr(line, " bytes in @"))
        assert_null(strstr(line, ", 0 bytes"));
}

static void
moves_have_bytes(void **state)
{
    Arena *a = *state;
    for (int i = sweep_first(NUM_PROGRAMS); i < NUM_PROGRAMS;
         i = sweep_next(i)) {
        const char *page = inserted_part(a, compile(a, i, "--explain"));
        for (const char *l = page, *end; *l; l = end) {
            end = line_end(l);
            if (*l == ' ')
                check_line(a, arena_strndup(a, l, (size_t)(end - l)));
        }
    }
}

/* The part of the page that is about collectives. */
static const char *
collectives_of(Arena *a, const char *page)
{
    const char *begin = strstr(page, "\ncollectives:");
    assert_non_null(begin);
    return arena_strndup(a, begin, (size_t)(strstr(begin, "\n\n") - begin));
}

/* Each all_reduce that bucket is given has a source line, that of its reason or
 * its own, which the collectives name. */
static void
check_packed(Arena *a, const char *collectives, const char *ir)
{
    int num = 0;
    for (const char *at = ir; (at = strstr(at, " = all_reduce ")); num++) {
        const char *end = line_end(at);
        const char *line = arena_strndup(a, at, (size_t)(end - at));
        const char *own = strstr(line, "} at ") + strlen("} at ");
        const char *of_reason = strstr(own, "\" at ");
        bool named = strstr(collectives, loc_text(a, ir, own)) != NULL;
        if (!named && of_reason)
            named = strstr(collectives,
                           loc_text(a, ir, of_reason + strlen("\" at ")));
        assert_true(named);
        at = end;
    }
    assert_true(num > 0);
}

static void
packs_name_every_source_line(void **state)
{
    Arena *a = *state;
    const char *before =
        arena_printf(a, "--print-after cleanup -o %s/plan", work_dir(a));
    for (int i = sweep_first(NUM_PROGRAMS); i < NUM_PROGRAMS; i = sweep_next(i))
        check_packed(a, collectives_of(a, compile(a, i, "--explain")),
                     compile(a, i, before));
}

/* ---- replicas that share devices ---------------------------------------- */

enum { REPLICAS = 8 };

/* A row of the page: what there is on so many devices. */
typedef struct Sharing {
    long long memory, vars;
    double step, between;
} Sharing;

static Sharing
sharing_row(const char *page, int devices)
{
    Sharing s;
    int n = 0;
    const char *l = strstr(page, "bytes between them\n");
    assert_non_null(l);
    for (l = line_end(l); *l; l = line_end(l))
        if (sscanf(l, "%d %lld %lld %lf x %lf", &n, &s.memory, &s.vars, &s.step,
                   &s.between) == 5 &&
            n == devices)
            return s;
    fail_msg("no row of %d devices in\n%s", devices, page);
    return s;
}

/* Bytes of the variables on so many devices, by the page's list of them. */
static long long
listed_bytes(Arena *a, const char *page, int devices)
{
    long long sum = 0;
    const char *l = line_end(strstr(page, "\nvariables\n") + 1);
    for (; *l; l = line_end(l)) {
        const char *line = arena_strndup(a, l, (size_t)(line_end(l) - l));
        const char *at = strstr(line, ", aggregation ");
        if (!at)
            break;
        int copies = strstr(line, " central, ")               ? 1
                     : strstr(line, "a part on each replica") ? REPLICAS
                                                              : devices;
        sum += copies * atoll(strstr(at, ": ") + 2);
    }
    return sum;
}

/* Kernels of the function in the IR, and those of them with results that all
 * replicas have alike; whether it has no branches, of which the page counts
 * one.
 */
static bool
count_kernels(Arena *a, const char *ir, const char *name, int *all, int *once)
{
    const char *l = strstr(ir, arena_printf(a, "func @%s(", name));
    assert_non_null(l);
    bool straight = true;
    *all = *once = 0;
    for (l = line_end(l); *l && strncmp(l, "func", 4) != 0; l = line_end(l)) {
        const char *line = arena_strndup(a, l, (size_t)(line_end(l) - l));
        char *kernel = strstr(line, " = kernel ");
        straight &= !strstr(line, " if %");
        if (!kernel)
            continue;
        *kernel = '\0';
        (*all)++;
        *once += !strstr(line, "per_replica");
    }
    return straight;
}

static void
check_kernels(Arena *a, const char *page, const char *ir)
{
    char name[64];
    int all, once, have_all, have_once;
    const char *at = strstr(page, "\n  in ");
    assert_non_null(at);
    assert_int_equal(
        sscanf(at, " in %63[^:]: %d of %d kernels", name, &once, &all), 3);
    bool straight = count_kernels(a, ir, name, &have_all, &have_once);
    assert_true(straight ? all == have_all && once == have_once
                         : all < have_all && once <= have_once);
}

static void
sharing_is_accounted_for(void **state)
{
    static const char *const shared[] = {"batchnorm", "bigram", "charlm",
                                         "linear --strategy central_storage"};
    Arena *a = *state;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const char *command = arena_printf(
            a, "tfdc --devices cpu:0-%d %s/docs/examples/%.*s.tfd %s",
            REPLICAS - 1, getenv("TFD_ROOT"), (int)strcspn(shared[i], " "),
            shared[i], shared[i] + strcspn(shared[i], " "));
        const char *page = run_ok(a, "%s --explain", command).out;
        check_kernels(a, page, run_ok(a, "%s --to placed", command).out);
        Sharing fewer = sharing_row(page, REPLICAS);
        assert_true(fewer.step == 1.0);
        for (int n = REPLICAS; n > 0; n /= 2) {
            Sharing more = fewer;
            fewer = sharing_row(page, n);
            assert_int_equal(fewer.vars, listed_bytes(a, page, n));
            assert_true(fewer.memory <= more.memory &&
                        fewer.step >= more.step &&
                        fewer.step <= (double)REPLICAS / n &&
                        fewer.between <= more.between);
        }
        assert_true(fewer.between == 0.0);
    }
    const char *alone =
        run_ok(a, "tfdc --devices cpu:0 %s/docs/examples/linear.tfd --explain",
               getenv("TFD_ROOT"))
            .out;
    assert_null(strstr(alone, "may share devices"));
}

/* The counts of a run: kernels for each replica, once for all of a device, and
 * those that this saved. */
static void
run_kernels(Arena *a, const char *plan, int devices, double kernels[3])
{
    int all, num;
    double mb[3];
    const char *err =
        run_ok(a, "tfd-run %s --devices cpu:0-%d --stats", plan, devices - 1)
            .err;
    const char *at = strstr(err, "\nreplicas ");
    assert_non_null(at);
    assert_int_equal(
        sscanf(at,
               " replicas %d on %d device%*[s:] %lf MB of variables, %lf MB "
               "less than on 8; %lf MB less in all kernels %lf for "
               "each replica, %lf once for all of a device, which saved %lf",
               &all, &num, &mb[0], &mb[1], &mb[2], &kernels[0], &kernels[1],
               &kernels[2]),
        8);
    assert_int_equal(all, REPLICAS);
    assert_int_equal(num, devices);
}

/* All batches of linear are full: its programs are the same on any number of
 * devices. */
static void
runs_say_what_sharing_saved(void **state)
{
    Arena *a = *state;
    double on_one[3], on[3];
    const char *plan = arena_printf(a, "%s/linear.tfp", work_dir(a));
    run_ok(a, "tfdc %s/docs/examples/linear.tfd --devices cpu:0-%d -o %s",
           getenv("TFD_ROOT"), REPLICAS - 1, plan);
    run_kernels(a, plan, 1, on_one);
    assert_true(on_one[0] > 0 && on_one[1] > 0);
    for (int n = 1; n <= REPLICAS; n *= 2) {
        run_kernels(a, plan, n, on);
        assert_true(on[0] == on_one[0]);
        assert_true(on[1] == n * on_one[1]);
        assert_true(on[1] + on[2] == REPLICAS * on_one[1]);
    }
}

/* What is said of the workers of a plan, and what --info says. */
static void
workers_are_explained(void **state)
{
    Arena *a = *state;
    static const struct {
        const char *dataset, *says;
    } rows[] = {
        {"distribute(range(8).batch(4))", "reads all and takes its parts"},
        {"distribute(range(8).batch(4), shard = off)", "reads all"},
        {"distribute(lines(\"*.txt\", u8[8]).batch(4))", "reads its files"},
        {"distribute_from(fn(ctx) = range(8).batch(4))",
         "has a pipeline of its own"},
    };
    const char *path = arena_printf(a, "%s/w.tfd", work_dir(a));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_text(path, arena_printf(a,
                                      "strategy multi_worker_mirrored(workers "
                                      "= 3, devices = \"cpu:0-1\")\n"
                                      "main { for x in %s {} }\n",
                                      rows[i].dataset));
        const char *page = run_ok(a, "tfdc %s --explain", path).out;
        const char *says =
            arena_printf(a, "; each of 3 workers %s; ", rows[i].says);
        assert_non_null(strstr(page, "strategy multi_worker_mirrored, 6 "
                                     "replicas on 3 workers with cpu:0-1 "
                                     "each\n"));
        if (!strstr(page, says))
            fail_msg("\"%s\" is not in\n%s", says, page);
    }
    run_ok(a, "tfdc %s", path);
    const char *plan = arena_printf(a, "%.*s.tfp", (int)strlen(path) - 4, path);
    const char *info = run_ok(a, "tfd-run %s --info", plan).out;
    assert_non_null(strstr(info, "3  with these devices each\n"));
}

static void
strategies_are_explained(void **state)
{
    Arena *a = *state;
    static const struct {
        const char *program, *says;
    } rows[] = {
        {"strategy mirrored\n", "strategy mirrored, 1 replica on cpu:0\n"},
        {"strategy central_storage\n",
         "strategy central_storage, 1 replica on cpu:0\n"},
        {"strategy parameter_server\n"
         "var v: i8[10] = 0 partition(fixed(3))\n",
         " in 3 parts of 3 to 4 rows on servers\n"},
        {"strategy parameter_server\n"
         "var v: i8[10] = 0 partition(fixed(5))\n",
         " in 5 parts of 2 rows on servers\n"},
        {"strategy parameter_server\n"
         "var v: i8[3] = 0 partition(fixed(5))\n",
         " in 3 parts of 1 row on servers\n"},
    };
    const char *path = arena_printf(a, "%s/s.tfd", work_dir(a));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_text(path, arena_printf(a, "%smain { }\n", rows[i].program));
        const char *page = run_ok(a, "tfdc %s --explain", path).out;
        if (!strstr(page, rows[i].says))
            fail_msg("\"%s\" is not in\n%s", rows[i].says, page);
    }
}

/* By what rule processes choose an algorithm: the bytes at which it changes, in
 * units of latency times rate, follow from the model by hand.  Of two processes
 * gather and doubling are a message each; of four, doubling takes 2 K + 2 D,
 * halving 4 K + 1.5 D, exchange 3 K + 1.5 D. */
static void
choices_of_processes_are_explained(void **state)
{
    Arena *a = *state;
    static const char *const says[] = {
        ("\n  shared memory      replicated to 512 bytes of a replica, then "
         "two_phase\n"),
        "\n       2 processes   gather to 65536 bytes, then doubling\n",
        "\n       4 processes   doubling to 2.00 K, then exchange\n",
    };
    const char *path = arena_printf(a, "%s/c.tfd", work_dir(a));
    write_text(path, "var w: f32[8] = zeros\n"
                     "fn step() { w += all_reduce(sum, f32(replica_id) * w) }\n"
                     "main { run step() }\n");
    const char *page =
        run_ok(a, "tfdc %s --devices cpu:0-3 --explain", path).out;
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(page, says[i]))
            fail_msg("\"%s\" is not in\n%s", says[i], page);
    page = run_ok(a, "tfdc %s --devices cpu:0 --explain", path).out;
    assert_null(strstr(page, "algorithms of collectives"));
    page = run_ok(a, "tfdc %s --devices cuda:0-1 --explain", path).out;
    assert_non_null(strstr(page, "\n  nccl               two_phase\n\n"));
}

/* Of the example: 26 rows of 8 f32 are 832 bytes; of N rows that a step changes
 * their numbers and their gradients are pushed, 8 + 8 * 4 bytes each. */
static void
pushes_have_bytes(void **state)
{
    Arena *a = *state;
    static const char *const says[] = {
        "  update.7     writes rate.squares.table, table\n",
        "  main.2 pushes, each time it comes there\n"
        "    update.7     40*N bytes\n"
        "    update.8     832 bytes\n"
        "    update.9     0 bytes\n"
        "    update.10    8 bytes\n",
    };
    const char *page = run_ok(a,
                              "tfdc %s/docs/examples/coordinator.tfd "
                              "--devices cpu:0-1 --explain",
                              getenv("TFD_ROOT"))
                           .out;
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(page, says[i]))
            fail_msg("\"%s\" is not in\n%s", says[i], page);
    page = run_ok(a, "tfdc %s/docs/examples/linear.tfd --explain",
                  getenv("TFD_ROOT"))
               .out;
    assert_null(strstr(page, "that servers execute"));
}

/* A row of 3 f32 has 12 bytes.  Of the 8 rows of a batch "table" is pulled; of
 * the others all is, for one of these reasons. */
static void
pulls_have_bytes(void **state)
{
    Arena *a = *state;
    static const char *const says =
        "  main.2 pulls, before it begins\n"
        "    table        12*R bytes, and 8*R of their numbers: the R rows "
        "that "
        "are looked up, at most 8\n"
        "    dense        56 bytes, of parts that have changed; \"take\" at "
        "parts.tfd:23:11 names rows that no parameter has\n"
        "    flat         36 bytes, of parts that have changed; 8 rows that "
        "are "
        "looked up would be no fewer\n"
        "    scaled       24 bytes, of parts that have changed; \"sum\" at "
        "parts.tfd:36:21 needs more than rows\n"
        "    all.moments.t 8 bytes, of parts that have changed\n";
    const char *page = run_ok(a, "tfdc %s/tests/cluster/ps/parts.tfd --explain",
                              getenv("TFD_ROOT"))
                           .out;
    if (!strstr(page, says))
        fail_msg("\"%s\" is not in\n%s", says, page);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_of_processes_are_explained),
        cmocka_unit_test(every_reason_is_explained),
        cmocka_unit_test(moves_have_bytes),
        cmocka_unit_test(pushes_have_bytes),
        cmocka_unit_test(pulls_have_bytes),
        cmocka_unit_test(packs_name_every_source_line),
        cmocka_unit_test(sharing_is_accounted_for),
        cmocka_unit_test(runs_say_what_sharing_saved),
        cmocka_unit_test(workers_are_explained),
        cmocka_unit_test(strategies_are_explained),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
