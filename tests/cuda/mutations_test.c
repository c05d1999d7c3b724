/*
 * mutations_test.c - small mistakes in emitted PTX are found
 *
 *   mutations_test SOURCE_ROOT                 a sample
 *   mutations_test SOURCE_ROOT --all [PART]    one of PART; lists those not
 * found
 *
 * Each mistake of mutate.h in each instruction of each kernel: the emulator
 * reports it, or the bits differ from the CPU's.  At least 95 in 100 are found;
 * README.md says why the others are not.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/codegen/run.h"
#include "tests/cuda/compare.h"
#include "tests/cuda/mutate.h"
#include "tests/cuda/programs.h"
#include "tests/unit/sweep.h"

enum {
    PERCENT = 95,   /* are found, of all */
    OF_SAMPLE = 92, /* of a sample, which may be an unlucky one */
    LEAST = 500,    /* mistakes of which a share means something */
    SAMPLE = 40,
    SLACK = 20000
};

typedef struct Tally {
    int total, by_outcome[3];
    int without_effect; /* the same even where it is made, or never executed */
} Tally;

static struct {
    const char *source_root;
    PtxMachine *machine;
    Tally kinds[NUM_MUTATIONS];
    int part;
    bool lists, full;
    Map *seen; /* kernels: several programs have the same */
} all;

/* ---- one mistake -------------------------------------------------------- */

/* The launches that a mistake is looked for in: several blocks; one, whose
 * loops go round more often; and inputs for the ends of functions. */
static const LaunchShape launches[] = {{.rows = 5, .blocks = 3},
                                       {.rows = 70, .blocks = 1},
                                       {.rows = 70, .blocks = 2, .wild = true}};
enum { NUM_LAUNCHES = sizeof launches / sizeof *launches };

typedef struct Subject {
    const char *name, *text;
    Comparison *launches[NUM_LAUNCHES];
} Subject;

static Outcome
outcome_of(const PtxModule *m, const Subject *s, const char **why)
{
    Outcome o = OUTCOME_SAME;
    for (int i = 0; i < NUM_LAUNCHES && o == OUTCOME_SAME; i++)
        o = comparison_run(s->launches[i], all.machine, m, PTX_CHECK_ALL, why);
    return o;
}

static Outcome
try_text(Arena *a, const Subject *s, const char *text, const char **why)
{
    PtxError error;
    PtxModule *m = ptx_module_open(text, strlen(text), 0, &error);
    if (!m) {
        *why = arena_strdup(a, error.text);
        return OUTCOME_REPORTED;
    }
    Outcome o = outcome_of(m, s, why);
    ptx_module_close(m);
    return o;
}

static int
line_number(const char *text, const char *line)
{
    int n = 1;
    for (const char *c = text; c < line; c++)
        n += *c == '\n';
    return n;
}

static void
list(const Subject *s, const char *line, MutationKind kind)
{
    if (all.lists)
        printf("# not found: %s:%d: %s:%.*s\n", s->name,
               line_number(s->text, line), mutation_names[kind],
               (int)strcspn(line, "\n"), line);
}

/* Whether a mistake that was not found changes nothing that the launches need.
 */
static bool
has_no_effect(Arena *a, const Subject *s, const char *line, MutationKind kind)
{
    const char *probe, *why;
    for (int n = 0; (probe = mutate_probe(a, s->text, line, kind, n)); n++)
        if (try_text(a, s, probe, &why) == OUTCOME_SAME)
            return true;
    return false;
}

/* Of wrong operands, which are nine tenths of all, a sample has fewer. */
static int
part_of(MutationKind kind)
{
    bool many = kind == MUTATE_NUMBER || kind == MUTATE_INDEX;
    return many && !all.lists ? 3 * all.part : all.part;
}

static void
try_mutation(const Subject *s, const char *line, MutationKind kind)
{
    if (sweep_random() % (uint64_t)part_of(kind))
        return;
    Arena *a = arena_new(NULL, "mutation");
    const char *changed = mutate(a, s->text, line, kind), *why;
    Tally *t = &all.kinds[kind];
    if (changed) {
        Outcome o = try_text(a, s, changed, &why);
        if (o == OUTCOME_SAME && has_no_effect(a, s, line, kind)) {
            t->without_effect++;
        } else {
            t->total++;
            t->by_outcome[o]++;
            if (o == OUTCOME_SAME)
                list(s, line, kind);
        }
    }
    arena_release(a);
}

/* ---- all of a kernel ---------------------------------------------------- */

static void
try_all(const Subject *s)
{
    for (const char *line = s->text; *line;
         line += strcspn(line, "\n"), line += *line == '\n')
        for (int kind = 0; kind < (all.full ? MUTATE_STORE : NUM_MUTATIONS);
             kind++)
            try_mutation(s, line, (MutationKind)kind);
}

static void
check_kernel(BeKernel *k, const RtCode *cpu)
{
    Arena *a = arena_new(NULL, "kernel");
    Subject s = {k->name, program_ptx(a, k, "sm_80"), {NULL}};
    const char *why;
    uint64_t before = ptx_machine_counts(all.machine)->warp_instructions;
    for (int i = 0; i < NUM_LAUNCHES; i++)
        s.launches[i] = comparison_new(a, k, cpu, launches[i]);
    if (try_text(a, &s, s.text, &why) != OUTCOME_SAME)
        fail_msg("%s", why);
    uint64_t now = ptx_machine_counts(all.machine)->warp_instructions;
    for (int i = 0; i < NUM_LAUNCHES; i++)
        comparison_limit(s.launches[i], now - before + SLACK);
    try_all(&s);
    arena_release(a);
}

static void
mistakes_are_found(void **state)
{
    Arena *a = arena_new(NULL, "program");
    BeKernels kernels = program_kernels(a, all.source_root, *state, all.full);
    RtCode *cpu = run_compile(&kernels, "native", 2);
    for (int i = sweep_first(kernels.len); i < kernels.len; i = sweep_next(i)) {
        BeKernel *k = kernels.data[i];
        if (map_get(all.seen, k->name))
            continue;
        map_set(all.seen, k->name, &all);
        check_kernel(k, cpu);
    }
    rt_code_close(cpu);
    arena_release(a);
}

/* ---- all ---------------------------------------------------------------- */

static void
enough_are_found(void **state)
{
    (void)state;
    int total = 0, found = 0;
    for (int i = 0; i < NUM_MUTATIONS; i++) {
        const Tally *t = &all.kinds[i];
        total += t->total;
        found += t->total - t->by_outcome[OUTCOME_SAME];
        printf("# %s: %d, %d reported, %d differ, %d not found; %d without "
               "effect\n",
               mutation_names[i], t->total, t->by_outcome[OUTCOME_REPORTED],
               t->by_outcome[OUTCOME_DIFFERENT], t->by_outcome[OUTCOME_SAME],
               t->without_effect);
    }
    printf("# %d of %d found\n", found, total);
    assert_true(total > 0);
    int percent = all.lists ? PERCENT : OF_SAMPLE;
    if (total >= LEAST)
        assert_true(100 * found >= percent * total);
}

enum { MAX_TESTS = 64 };

int
main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    Arena *a = arena_new(NULL, "mutations");
    all.source_root = argv[1];
    all.machine = ptx_machine_new();
    all.full = argc > 2 && !strcmp(argv[2], "--full");
    all.lists = all.full || (argc > 2 && !strcmp(argv[2], "--all"));
    all.part = !all.lists ? SAMPLE : argc > 3 ? atoi(argv[3]) : 1;
    all.seen = map_new(a);
    struct CMUnitTest tests[MAX_TESTS];
    size_t num = 0;
    for (const Program *p = programs; p->path; p++)
        tests[num++] =
            (struct CMUnitTest){.name = p->path,
                                .test_func = mistakes_are_found,
                                .initial_state = (void *)(uintptr_t)p};
    tests[num++] = (struct CMUnitTest)cmocka_unit_test(enough_are_found);
    int failed = _cmocka_run_group_tests("mutations", tests, num, NULL, NULL);
    ptx_machine_free(all.machine);
    arena_release(a);
    return failed;
}
