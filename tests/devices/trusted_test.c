/*
 * trusted_test.c - plans with damage in each thing that the runner trusts
 *
 * Each row of trusted.def is applied to a valid plan, with correct hashes: the
 * result is one message and exit status 1, from the reader of the plan or from
 * the runner.  Numbers in compiled code are checked at each call.
 */
#include "ir/plan/plan_impl.h"
#include "ir/text/text.h"
#include "tests/devices/runs.h"

#include <elf.h>

/* ---- plans that are damaged --------------------------------------------- */

/* A program with everything that is looked at when a plan is loaded. */
static const char everything[] =
    "symbols b <= 3 alone, n <= 2, N <= 3\n"
    "param @lr: f32 = 1.0\n"
    "var @w: f32[4] mirrored sync(on_write) aggregate(none)\n"
    "dataset @d {\n"
    "  range start=0 stop=8 : i64\n"
    "  map @f : f32\n"
    "  batch size=3 drop_remainder=0 : f32[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @f(%i: i64) host {\n"
    "  %x: f32 = cast %i {dtype=f32}\n"
    "  return %x\n"
    "}\n"
    "func @main() main {\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %0: bool = iter_has_next {iter=@it}\n"
    "    yield %0\n"
    "  } {\n"
    "    %x: f32[n] per_replica = iter_next {iter=@it}\n"
    "    %h: f32[4] = read {var=@w}\n"
    "    %k: f32 = sum %h {axes=[0]}\n"
    "    %s: f32 per_replica = run {\n"
    "      %1: f32 per_replica = sum %x {axes=[0]}\n"
    "      %2: f32 mirrored = all_reduce %1 {op=sum}\n"
    "      %3: f32[4] mirrored = broadcast %2 {dims=[4]}\n"
    "      %33: f32[4] mirrored = mul %3, %k\n"
    "      write %33 {var=@w mode=add}\n"
    "      print %2 {format=\"{}\"}\n"
    "      yield %1\n"
    "    }\n"
    "    %c: f32[4] = iota {dims=[4] dtype=f32 axis=0}\n"
    "    print %c {format=\"{}\"}\n"
    "    %4: f32 = param {param=@lr}\n"
    "    print %4 {format=\"lr {}\"}\n"
    "    %5: f32 = local_result %s {replica=1}\n"
    "    print %5 {format=\"{}\"}\n"
    "    yield\n"
    "  }\n"
    "  run {\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %last: i32 mirrored = all_reduce %id {op=min}\n"
    "    print %last {format=\"{}\"}\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

/* The stages of datasets, and operations of main only. */
static const char alone[] =
    "symbols b <= 3 alone, n <= 2, N <= 3\n"
    "param @lr: f32 = 1.0\n"
    "var @w: f32[4] mirrored sync(on_write) aggregate(none) init @w.init\n"
    "dataset @rows {\n"
    "  tensors count=4 data=hex\"01020304\" : u8\n"
    "  shard num=2 index=1 : u8\n"
    "  skip count=1 : u8\n"
    "  take count=9 : u8\n"
    "  repeat count=4 : u8\n"
    "  shuffle buffer=5 seed=-1 reshuffle=1 has_seed=0 : u8\n"
    "  window size=2 stride=7 : u8[2]\n"
    "  unbatch : u8\n"
    "  cache : u8\n"
    "  lanes num=6 : u8[6]\n"
    "}\n"
    "dataset @d {\n"
    "  range start=0 stop=8 : i64\n"
    "  filter @odd : i64\n"
    "  zip with @rows : i64, u8[6]\n"
    "  prefetch depth=8 : i64, u8[6]\n"
    "  batch size=3 drop_remainder=0 : i64[b], u8[b, 6]\n"
    "}\n"
    "dataset @table {\n"
    "  csv header=2 separator=9 \"a\" names \"x\", \"y\" "
    "data=hex\"0000803f05\" : f32, u8[4]\n"
    "}\n"
    "dataset @examples {\n"
    "  tfrecord \"a\" names \"f\" data=hex\"05\" : i8[2]\n"
    "}\n"
    "dataset @arrays {\n"
    "  npz \"a\" names \"x\", \"y 2\" : f32, i64\n"
    "}\n"
    "dataset @lines {\n"
    "  lines cut=1 \"a\" : u8[2]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @w.init() init {\n"
    "  %0: f32[4] = constant {dims=[4] dtype=f32 data=[1, 2, 3, 4]}\n"
    "  return %0\n"
    "}\n"
    "func @odd(%i: i64) host {\n"
    "  %k: i64 = constant {dims=[] dtype=i64 data=[6]}\n"
    "  %0: bool = ne %i, %k\n"
    "  assert %0, %i {format=\"odd {}\"}\n"
    "  return %0\n"
    "}\n"
    "func @main() main {\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %0: bool = iter_has_next {iter=@it}\n"
    "    yield %0\n"
    "  } {\n"
    "    %x: i64[n] per_replica, %y: u8[n, 6] per_replica = iter_next "
    "{iter=@it}\n"
    "    run {\n"
    "      %1: i64[N] mirrored = all_gather %x {axis=0}\n"
    "      print %1 {format=\"{}\"}\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  %w: f32[4] = read {var=@w}\n"
    "  %2: i64 = constant {dims=[] dtype=i64 data=[7]}\n"
    "  save %w, %2 {format=\"run {}\" vars=[@w]}\n"
    "  summary %w, %2, %2 {format=\"sum/{}\"}\n"
    "  %r: f32[4] = restore %2 {format=\"run {}\" vars=[@w] strict=true}\n"
    "  print %r {format=\"{}\"}\n"
    "  %lr: f32 = param {param=@lr}\n"
    "  print %lr {format=\"lr {}\"}\n"
    "  return\n"
    "}\n";

/* Which check reports that a plan is damaged. */
typedef enum Checker { PLAN, RUNNER } Checker;

static const struct {
    const char *program;
    Checker checker;
    const char *from, *to, *message;
} damages[] = {
#define TRUSTED(what, program, checker, from, to, message)                     \
    {program, checker, from, to, message},
#define OBJECT(what, in, type, field, value, message)
#include "tests/devices/trusted.def"
#undef TRUSTED
#undef OBJECT
};

enum { NUM_DAMAGES = sizeof damages / sizeof *damages };

/* text with the last `from` replaced. */
static const char *
replaced(const char *text, const char *from, const char *to)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, from)); at++)
        last = at;
    if (!last)
        fail_msg("\"%s\" is not in %s", from, text);
    return arena_printf(arena, "%.*s%s%s", (int)(last - text), text, to,
                        last + strlen(from));
}

/* The valid input of one of the two programs. */
typedef struct Sound {
    const char *program, *text;
    Plan *plan;
} Sound;

static Sound
sound_plan(const char *body)
{
    const char *text = program(2, body);
    Plan *p = build_plan(arena, text);
    return (Sound){body, ir_module_text(arena, p->module), p};
}

/* The objects of p with another module, as a file that is read. */
static Status
read_with(const Plan *p, const char *text, Plan **out)
{
    const char *bytes;
    size_t len;
    PlanWriter *w = plan_writer_new(arena);
    plan_set_ir(w, text, strlen(text));
    for (int i = 0; i < p->codes[0].num_objects; i++) {
        const PlanObject *o = &p->codes[0].objects[i];
        const char *name = strrchr(o->name, '/') + 1;
        name = arena_printf(arena, "%.*s", (int)strcspn(name, "."), name);
        plan_add_object(w, p->codes[0].name, name, o->bytes, o->size);
    }
    plan_add_source(w, "t.tfd", build_source, strlen(build_source));
    TRY(plan_write_bytes(w, arena, &bytes, &len));
    return plan_read_bytes(arena, "t.tfp", bytes, len, out);
}

static Plan *
with_module(const Plan *p, const char *text)
{
    Plan *damaged = NULL;
    status_free(read_with(p, text, &damaged)); /* the verifier has said it */
    return damaged;
}

/* Runs p with a module that was not verified. */
static Status
run_unverified(const Plan *p, const char *text)
{
    Plan damaged = *p;
    damaged.diag = diag_new(arena);
    uint16_t file = diag_add_source(damaged.diag, "t.tir", NULL, 0);
    IrModule *m = ir_parse(arena, intern_new(arena), damaged.diag, file, text,
                           strlen(text));
    if (!m)
        fail_msg("%s", diag_text(damaged.diag, arena));
    plan_set_module(arena, &damaged, m);
    return build_run(arena, &damaged, (RtOptions){.num_threads = 1}).st;
}

static Status
find_damage(const Sound *s, int i)
{
    Plan *unused;
    const char *text = replaced(s->text, damages[i].from, damages[i].to);
    return damages[i].checker == RUNNER ? run_unverified(s->plan, text)
                                        : read_with(s->plan, text, &unused);
}

/* Whether st is a refusal with the expected message; OK if none is expected. */
static bool
says(Status st, const char *wanted)
{
    if (!st || !wanted)
        return !st && !wanted;
    return status_kind(st) == STATUS_INPUT &&
           strstr(status_message(st), wanted) != NULL;
}

static void
damages_are_named(void **state)
{
    const Sound sounds[] = {sound_plan(everything), sound_plan(alone)};
    int num_wrong = 0;
    (void)state;
    for (int i = 0; i < NUM_DAMAGES; i++) {
        const Sound *s = &sounds[damages[i].program == alone];
        Status st = find_damage(s, i);
        if (!says(st, damages[i].message)) {
            print_error("%s\nwanted: %s\nsaid: %s\n", damages[i].to,
                        damages[i].message, st ? status_message(st) : "");
            num_wrong++;
        }
        status_free(st);
    }
    assert_int_equal(num_wrong, 0);
}

/* A plan whose files are all valid, but do not belong together. */
static void
code_runs_with_its_own_module(void **state)
{
    Sound s = sound_plan(everything);
    RtOptions options = {.num_threads = 1};
    (void)state;
    Result r = build_run(arena, with_module(s.plan, s.text), options);
    assert_null(r.st);
    for (int i = 0; i < NUM_DAMAGES; i++) {
        if (damages[i].program != everything)
            continue;
        Plan *damaged = with_module(
            s.plan, replaced(s.text, damages[i].from, damages[i].to));
        if (!damaged)
            continue;
        r = build_run(arena, damaged, options);
        assert_non_null(r.st);
        assert_int_equal(status_kind(r.st), STATUS_INPUT);
        const char *wanted =
            damages[i].message
                ? "cannot run \"t.tfp\": "
                : "its code was not compiled from its placed.tir";
        assert_non_null(strstr(status_message(r.st), wanted));
        status_free(r.st);
    }
}

/* ---- objects that are damaged ------------------------------------------- */

/* The part of an object that a number is in: its header; the first section of a
 * kind; the first entry of a table. */
typedef enum ObjectPart {
    OF_HEADER,
    OF_CODE,
    OF_SYMBOLS,
    OF_RELOCATIONS,
    OF_SYMBOL,
    OF_RELOCATION
} ObjectPart;

static const struct {
    ObjectPart in;
    size_t at, size;
    uint64_t value;
    const char *message;
} object_damages[] = {
#define TRUSTED(what, program, checker, from, to, message)
#define OBJECT(what, in, type, field, value, message)                          \
    {in, offsetof(type, field), sizeof((type *)0)->field, value, message},
#include "tests/devices/trusted.def"
#undef TRUSTED
#undef OBJECT
};

static Elf64_Shdr *
section_at(char *bytes, int i)
{
    Elf64_Shdr *sections = (void *)(bytes + ((Elf64_Ehdr *)bytes)->e_shoff);
    return &sections[i];
}

/* Relocations are those of code. */
static bool
is_section(char *bytes, const Elf64_Shdr *h, ObjectPart part)
{
    if (part == OF_SYMBOLS || part == OF_SYMBOL)
        return h->sh_type == SHT_SYMTAB;
    if (part == OF_CODE)
        return h->sh_flags & SHF_EXECINSTR && h->sh_size;
    return h->sh_type == SHT_RELA && h->sh_size &&
           section_at(bytes, (int)h->sh_info)->sh_flags & SHF_EXECINSTR;
}

/* The first global symbol that is defined: local symbols come before
 * sh_info. */
static char *
first_symbol(char *bytes, const Elf64_Shdr *table)
{
    Elf64_Sym *symbols = (void *)(bytes + table->sh_offset);
    size_t i = table->sh_info;
    while (symbols[i].st_shndx == SHN_UNDEF)
        i++;
    return (char *)&symbols[i];
}

static char *
find_part(char *bytes, ObjectPart part)
{
    if (part == OF_HEADER)
        return bytes;
    for (int i = 0; i < ((Elf64_Ehdr *)bytes)->e_shnum; i++) {
        Elf64_Shdr *h = section_at(bytes, i);
        if (!is_section(bytes, h, part))
            continue;
        if (part == OF_SYMBOL)
            return first_symbol(bytes, h);
        return part == OF_RELOCATION ? bytes + h->sh_offset : (char *)h;
    }
    fail_msg("the object has no part %d", part);
    return NULL;
}

/* The first object of the plan with damage i. */
static PlanObject
damaged_object(const PlanObject *from, int i)
{
    char *bytes = arena_alloc(arena, from->size);
    memcpy(bytes, from->bytes, from->size);
    char *part = find_part(bytes, object_damages[i].in);
    memcpy(part + object_damages[i].at, &object_damages[i].value,
           object_damages[i].size);
    return (PlanObject){from->name, bytes, from->size};
}

static void
damaged_objects_are_named(void **state)
{
    Sound s = sound_plan(everything);
    int num_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof object_damages / sizeof *object_damages;
         i++) {
        Plan other = *s.plan, *damaged;
        PlanCode code = other.codes[0];
        size_t num = (size_t)code.num_objects;
        PlanObject *objects = NEW_ARRAY(arena, PlanObject, num);
        memcpy(objects, code.objects, num * sizeof *objects);
        objects[0] = damaged_object(&objects[0], (int)i);
        code.objects = objects;
        other.codes = &code;
        assert_null(read_with(&other, s.text, &damaged));
        Result r = build_run(arena, damaged, (RtOptions){.num_threads = 1});
        if (!says(r.st, object_damages[i].message)) {
            print_error("wanted: %s\nsaid: %s\n", object_damages[i].message,
                        r.st ? status_message(r.st) : "");
            num_wrong++;
        }
        status_free(r.st);
    }
    assert_int_equal(num_wrong, 0);
}

/* ---- numbers that compiled code has ------------------------------------- */

/* The last print of main is removed, and its code still calls it. */
static void
numbers_of_operations_are_checked(void **state)
{
    const char *text = program(1, "func @main() main {\n"
                                  "  %0: i64 = constant {dims=[] dtype=i64 "
                                  "data=[7]}\n"
                                  "  print %0 {format=\"{}\"}\n"
                                  "  print %0 {format=\"last {}\"}\n"
                                  "  return\n"
                                  "}\n");
    Plan *p = build_plan(arena, text);
    const char *good = ir_module_text(arena, p->module);
    (void)state;
    const char *line = strstr(good, "  print %0 {format=\"last");
    assert_non_null(line);
    Plan *damaged =
        with_module(p, arena_printf(arena, "%.*s%s", (int)(line - good), good,
                                    strchr(line, '\n') + 1));
    assert_non_null(damaged);
    damaged->ir_hash = NULL;
    Result r = build_run(arena, damaged, (RtOptions){.num_threads = 1});
    assert_non_null(r.st);
    assert_non_null(strstr(status_message(r.st),
                           "the code of @main asks for what it does not have"));
    status_free(r.st);
}

/* At the end of each round main calls the safepoint of a loop that is no
 * dataset loop any more. */
static void
numbers_of_safepoints_are_checked(void **state)
{
    Sound s = sound_plan(everything);
    const char *asks = "    %0: bool [frame+0] = iter_has_next {iter=@it} at "
                       "1:1+4\n";
    const char *outside = arena_printf(arena, "%s  while {\n", asks);
    const char *text =
        replaced(s.text, arena_printf(arena, "  while {\n%s", asks), outside);
    (void)state;
    Status st = run_unverified(s.plan, text);
    assert_true(says(st, "the code of @main asks for what it does not have"));
    status_free(st);
}

/* A program that enqueues its kernels launches one that the plan has not. */
static void
numbers_of_kernels_are_checked(void **state)
{
    (void)state;
    Plan *p = build_plan_for(arena,
                             program(2, "func @main() main {\n"
                                        "  run {\n"
                                        "    %0: i32 per_replica = replica_id\n"
                                        "    %1: i32 per_replica = mul %0, %0\n"
                                        "    print %1 {format=\"{}\"}\n"
                                        "    yield\n"
                                        "  }\n"
                                        "  return\n"
                                        "}\n"),
                             "native,sm_80");
    setenv("TFD_PROGRAMS", "enqueue", 1);
    Result r = build_run(arena, p, (RtOptions){.num_threads = 1});
    assert_null(r.st);
    p->num_kernels = 0;
    r = build_run(arena, p, (RtOptions){.num_threads = 1});
    unsetenv("TFD_PROGRAMS");
    assert_true(
        says(r.st, "the code of @main.1 asks for what it does not have"));
    status_free(r.st);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damages_are_named),
        cmocka_unit_test(code_runs_with_its_own_module),
        cmocka_unit_test(damaged_objects_are_named),
        cmocka_unit_test(numbers_of_operations_are_checked),
        cmocka_unit_test(numbers_of_safepoints_are_checked),
        cmocka_unit_test(numbers_of_kernels_are_checked),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
