/*
 * gen_main.c - datasets, steps and main of random programs
 */
#include "tests/random/gen_impl.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PARTS = 3 };

typedef struct Data {
    const char *name;
    int num_parts;
    GenType parts[MAX_PARTS]; /* of a replica's share */
    bool endless;
    bool even; /* all batches are full */
} Data;

/* A function to be run: its arguments and results as main sees them. */
typedef struct Step {
    const char *name;
    const Data *data; /* its share comes first; NULL: none */
    int num_args, num_results;
    GenValue args[2], results[MAX_PARTS];
} Step;

/* ---- datasets ----------------------------------------------------------- */

/* The function that makes an element of a number. */
static const char *
make_element(Gen *g, Data *d)
{
    const char *name = gen_name(g, "e");
    gen_open(g, "fn %s(i) {", name);
    GenScope outer = gen_enter(g, IN_ELEMENT);
    g->scope.len = 0;
    gen_add(g, (GenValue){.type = gen_scalar(DT_i64)}, "i");
    gen_let(g, (GenValue){.type = gen_scalar(DT_f32), .size = 4},
            "f32(i) * 0.25");
    for (int n = gen_pick(g, 6); n > 0; n--)
        gen_compute(g);
    Str list = str_new(g->arena);
    d->num_parts = 1 + gen_pick(g, MAX_PARTS);
    for (int i = 0; i < d->num_parts; i++) {
        GenType t = gen_random_type(g, i ? gen_dtype(g) : DT_f32);
        t.rank = t.rank > 2 ? 2 : t.rank;
        GenValue v = gen_like(g, t, false);
        v = gen_tame(g, v, 8);
        str_addf(&list, "%s%s", i ? ", " : "", v.name);
        for (int k = t.rank; k > 0; k--)
            t.dims[k] = t.dims[k - 1];
        t.rank++;
        t.rows = true;
        d->parts[i] = t;
    }
    gen_line(g, "return (%s,)", str_text(&list));
    gen_leave(g, outer);
    gen_close(g, "}");
    return name;
}

static const char *
pick_stage(Gen *g, Data *d)
{
    int n = 1 + gen_pick(g, 5);
    switch (gen_pick(g, 8)) {
    case 0:
    case 1:
        return gen_text(g, ".shuffle(%d, seed = %d%s)", 2 * n, gen_pick(g, 9),
                        gen_chance(g, 30) ? ", reshuffle = false" : "");
    case 2:
        return gen_text(g, ".repeat(%d)", 1 + n / 2);
    case 3:
        return gen_text(g, ".take(%d)", n * 3);
    case 4:
        return gen_text(g, ".skip(%d)", n / 2);
    case 5:
        return gen_text(g, ".shard(2, %d)", n % 2);
    case 6:
        return d->endless ? "" : ".cache()";
    default:
        if (d->endless || n > 2)
            return ".prefetch(2)";
        d->endless = true;
        return ".repeat()";
    }
}

/* A stage of the numbers that elements are made of. */
static const char *
pick_number_stage(Gen *g)
{
    int n = 1 + gen_pick(g, 4);
    switch (gen_pick(g, 4)) {
    case 0:
        return gen_text(g, ".filter(fn(i) = i %% %d != 0)", n + 1);
    case 1:
        return gen_text(g, ".concat(range(%d))", n);
    case 2:
        return gen_text(g, ".batch(%d).unbatch()", n);
    default:
        return gen_text(g, ".map(fn(i) = i * %d %% 7)", n);
    }
}

static Data *
make_dataset(Gen *g)
{
    Data *d = NEW(g->arena, Data);
    const char *f = make_element(g, d);
    Str s = str_new(g->arena);
    str_addf(&s, "range(%d)", 1 + gen_pick(g, 12));
    bool first = gen_chance(g, 50);
    if (first)
        str_addf(&s, ".map(%s)", f);
    for (int n = gen_pick(g, 3); n > 0; n--)
        str_add(&s, pick_stage(g, d));
    if (!first && !d->endless && gen_chance(g, 40))
        str_add(&s, pick_number_stage(g));
    if (!first)
        str_addf(&s, ".map(%s)", f);
    d->even = gen_chance(g, 20);
    str_addf(&s, ".batch(%d%s)", 1 + gen_pick(g, 6),
             d->even ? ", drop_remainder = true" : "");
    for (int n = gen_pick(g, 2); n > 0; n--)
        str_add(&s, pick_stage(g, d));
    d->name = gen_name(g, "d");
    gen_line(g, "dataset %s = %s", d->name, str_text(&s));
    return d;
}

/* ---- steps -------------------------------------------------------------- */

static Who
who_of_rows(const Gen *g)
{
    return g->invariant ? ROWS : OWN;
}

static void
add_params(Gen *g, Step *s, Str *list)
{
    for (int i = 0; s->data && i < s->data->num_parts; i++) {
        const char *name = gen_name(g, "p");
        str_addf(list, "%s%s", i ? ", " : "", name);
        GenValue v = {
            .type = s->data->parts[i], .who = who_of_rows(g), .size = 8};
        gen_add(g, v, name);
        if (i == 0)
            snprintf(g->rows_name, sizeof g->rows_name, "%s", name);
    }
    s->num_args = gen_pick(g, 3);
    for (int i = 0; i < s->num_args; i++) {
        const char *name = gen_name(g, "p");
        s->args[i] = gen_parameter(g, 30);
        str_addf(list, "%s%s", list->len ? ", " : "", name);
        gen_add(g, s->args[i], name);
    }
}

static void
return_results(Gen *g, Step *s)
{
    Str list = str_new(g->arena);
    int n = 1 + gen_pick(g, MAX_PARTS);
    for (int i = 0; i < n; i++) {
        GenValue v;
        if (!gen_find(g, gen_fits_result, NULL, &v))
            break;
        str_addf(&list, "%s%s", i ? ", " : "", v.name);
        v.frame = 0;
        v.collective = v.in_control = true;
        s->results[s->num_results++] = v;
    }
    if (s->num_results)
        gen_line(g, "return (%s,)", str_text(&list));
}

static Step *
make_step(Gen *g, const Data *d)
{
    Step *s = NEW(g->arena, Step);
    s->data = d;
    s->name = gen_name(g, "s");
    Str list = str_new(g->arena);
    GenScope outer = gen_enter(g, IN_STEP);
    g->scope.len = 0;
    g->has_rows = d && !d->even; /* else len(p) may be a constant */
    g->rows_name[0] = '\0';
    add_params(g, s, &list);
    gen_open(g, "fn %s(%s) {", s->name, str_text(&list));
    g->budget = 25;
    gen_block(g, 6 + gen_pick(g, 10));
    return_results(g, s);
    gen_leave(g, outer);
    gen_close(g, "}");
    return s;
}

/* ---- main --------------------------------------------------------------- */

static bool
fits_handle(Gen *g, const GenValue *v, const void *like)
{
    (void)g;
    return v->who != SAME &&
           gen_same_type(&v->type, &((const GenValue *)like)->type);
}

/* A value for a step's argument that may differ: a handle, or one made. */
static GenValue
handle_like(Gen *g, const GenValue *like)
{
    GenValue v;
    if (gen_find(g, fits_handle, like, &v))
        return v;
    v = *like;
    if (v.type.dtype == DT_bool)
        return *gen_let(g, v,
                        "values_from(fn(ctx) = fill(%s, ctx.replica_id == 0))",
                        gen_shape_text(g, &v.type));
    return *gen_let(g, v,
                    "values_from(fn(ctx) = fill(%s, %s(ctx.replica_id + 1)))",
                    gen_shape_text(g, &v.type), dtype_info[v.type.dtype].name);
}

/* let (x, y) = run step(parts, values). */
static void
run_step(Gen *g, const Step *s, const char *parts)
{
    Str args = str_new(g->arena);
    str_add(&args, parts);
    for (int i = 0; i < s->num_args; i++) {
        GenValue v = s->args[i].who == SAME
                         ? gen_like(g, s->args[i].type, false)
                         : handle_like(g, &s->args[i]);
        if (v.who == SAME)
            v = gen_tame(g, v, 50);
        str_addf(&args, "%s%s", args.len ? ", " : "", v.name);
    }
    if (!s->num_results) {
        gen_line(g, "run %s(%s)", s->name, str_text(&args));
        return;
    }
    const char *all = gen_name(g, "x");
    gen_line(g, "let %s = run %s(%s)", all, s->name, str_text(&args));
    for (int i = 0; i < s->num_results; i++)
        gen_let(g, s->results[i], "%s.%d", all, i);
}

/* Prints the results of a step: without a use they would not be computed. */
static void
use_results(Gen *g, const Step *s)
{
    int len = g->scope.len;
    for (int i = len - s->num_results; i < len; i++) {
        GenValue v = g->scope.data[i];
        if (v.who == SAME)
            gen_line(g, "print(\"{%s}\")", v.name);
        else if (v.type.rows && (g->invariant || gen_chance(g, 50)))
            gen_line(g, "print(\"{gather(%s, axis = 0)}\")", v.name);
        else if (!g->invariant)
            gen_line(g, "print(\"{local_results(%s)}\")", v.name);
        else if (v.type.dtype != DT_bool)
            gen_line(g, "print(\"{reduce(sum, %s)}\")", v.name);
    }
}

/* What a step takes, main may reduce and gather, too. */
static void
add_shares(Gen *g, const Data *d, const char *parts)
{
    for (int i = 0; i < d->num_parts; i++) {
        size_t n = strcspn(parts, ",");
        GenValue v = {.type = d->parts[i], .who = who_of_rows(g), .size = 8};
        gen_add(g, v, arena_strndup(g->arena, parts, n));
        parts += n + strspn(parts + n, ", ");
    }
}

static void
loop_over(Gen *g, const Step *s, const char *parts, bool iterator)
{
    const Data *d = s->data;
    const char *k = gen_name(g, "k");
    const char *shard = gen_chance(g, 60)   ? ""
                        : gen_chance(g, 50) ? ", shard = off"
                                            : ", shard = data";
    int most = 2 + gen_pick(g, 4);
    const char *feed = gen_text(g, "distribute(%s%s)", d->name, shard);
    if (!g->invariant && gen_chance(g, 12))
        feed = gen_text(g, "distribute_from(fn(ctx) = %s%s)", d->name,
                        gen_chance(g, 40) ? ", pipelines = per_replica" : "");
    gen_line(g, "mut %s = 0", k);
    if (iterator) {
        const char *it = gen_name(g, "it");
        gen_line(g, "let %s = iter(%s)", it, feed);
        gen_open(g, "while has_next(%s) {", it);
        gen_line(g, "let (%s,) = next(%s)", parts, it);
    } else {
        gen_open(g, "for (%s,) in %s {", parts, feed);
    }
    gen_line(g, "if %s == %d { break }", k, most);
    gen_line(g, "%s += 1", k);
    int len = g->scope.len;
    g->depth++;
    add_shares(g, d, parts);
    run_step(g, s, parts);
    use_results(g, s);
    g->budget = 4;
    gen_block(g, gen_pick(g, 5));
    g->depth--;
    g->scope.len = len;
    gen_close(g, "}");
}

static void
run_once(Gen *g, const Step *s)
{
    if (!s->data) {
        run_step(g, s, "");
        use_results(g, s);
        return;
    }
    Str parts = str_new(g->arena);
    for (int i = 0; i < s->data->num_parts; i++)
        str_addf(&parts, "%s%s", i ? ", " : "", gen_name(g, "b"));
    loop_over(g, s, str_text(&parts), gen_chance(g, 25));
}

static void
make_main(Gen *g, Step *const *steps, int n)
{
    gen_open(g, "main {");
    GenScope outer = gen_enter(g, IN_MAIN);
    g->scope.len = 0;
    g->depth = 1;
    for (int i = 0; i < n + 1; i++) {
        g->budget = 10;
        gen_block(g, gen_pick(g, 6));
        run_once(g, steps[i < n ? i : gen_pick(g, n)]);
    }
    g->budget = 6;
    gen_block(g, gen_pick(g, 5));
    if (g->loss_check)
        gen_check_loss(g);
    gen_print_vars(g);
    gen_leave(g, outer);
    gen_close(g, "}");
}

/* ---- the program -------------------------------------------------------- */

/* Where variables are, or how replicas are combined and on which device. */
static void
make_places(Gen *g)
{
    static const char *const crosses[] = {
        "hierarchical_copy", "hierarchical_copy:packs=2", "ring",
        "reduction_to_one"};
    if (g->central && gen_chance(g, 50))
        gen_line(g, "#! parameters %d", gen_pick(g, 5));
    if (g->central || !gen_chance(g, 30))
        return;
    int k = gen_pick(g, 5);
    gen_line(g, "#! cross %s", crosses[k < 3 ? k : 3]);
    if (k >= 3 && gen_chance(g, 60))
        gen_line(g, "#! reduce_to %d", gen_pick(g, 5));
}

static void
make_header(Gen *g, uint64_t seed)
{
    static const char *const ones[] = {"default", "one_device", "mirrored"};
    gen_line(g, "#! seed %llu", (unsigned long long)seed);
    gen_line(g, "#! replicas %s", seed % 2 ? "1 2 4 5" : "1 2 3 5");
    if (gen_chance(g, 15))
        gen_line(g, "#! level 2");
    g->central = gen_chance(g, 25);
    gen_line(g, "#! one %s",
             g->central ? "central_storage" : ones[gen_pick(g, 3)]);
    gen_line(g, "#! strategy %s", g->central ? "central_storage" : "mirrored");
    make_places(g);
    if (gen_chance(g, 25))
        gen_line(g, "#! pack %d", 16 << gen_pick(g, 3));
    if (gen_chance(g, 15))
        gen_line(g, "#! threads 1");
    if (g->invariant)
        gen_line(g, "#! invariant");
}

const char *
gen_program(Arena *a, uint64_t seed)
{
    Gen g = {.arena = a, .state = seed * 0x2545f4914f6cdd1du + 1};
    Data *data[2];
    Step *steps[3];
    g.out = str_new(a);
    g.invariant = gen_chance(&g, 40);
    make_header(&g, seed);
    gen_line(&g, "use optim");
    gen_declare_vars(&g);
    int num_data = gen_chance(&g, 80) + gen_chance(&g, 30);
    for (int i = 0; i < num_data; i++)
        data[i] = make_dataset(&g);
    gen_declare_helpers(&g);
    if (gen_chance(&g, 25))
        gen_declare_loss(&g);
    int n = 1 + gen_pick(&g, 3);
    for (int i = 0; i < n; i++)
        steps[i] = make_step(&g, num_data && gen_chance(&g, 80)
                                     ? data[gen_pick(&g, num_data)]
                                     : NULL);
    make_main(&g, steps, n);
    return str_text(&g.out);
}
