/*
 * loader_test.c - objects of the C compiler, valid and damaged
 *
 * The objects are given on the command line: one.o, two.o, outside.o.
 */
#include "tests/unit/unit.h"
#include "tests/unit/status.h"

#include <elf.h>
#include "ir/base/io/file.h"
#include "runtime/load/loader.h"

enum { ONE, TWO, OUTSIDE, NUM_OBJECTS };

static Arena *arena;
static PlanObject objects[NUM_OBJECTS];

typedef int64_t Unary(int64_t);

static Unary *
unary(const RtCode *code, const char *name)
{
    Unary *f;
    TfdFunction *function = rt_code_function(code, name);
    assert_non_null(function);
    memcpy(&f, &function, sizeof f);
    return f;
}

static RtCode *
open_both(void)
{
    RtCode *code = NULL;
    assert_null(rt_code_open(objects, 2, &code));
    return code;
}

static void
objects_call_each_other(void **state)
{
    RtCode *code = open_both();
    int64_t (*through_table)(int64_t, int64_t);
    TfdFunction *function = rt_code_function(code, "p_through_table");
    memcpy(&through_table, &function, sizeof function);
    (void)state;
    assert_int_equal(unary(code, "p_twice")(21), 42);
    assert_int_equal(unary(code, "p_choose")(1), 8);
    assert_int_equal(unary(code, "p_choose")(4), 1 << 20);
    assert_int_equal(unary(code, "p_choose")(5), 1);
    assert_int_equal(unary(code, "p_choose")(5), 2);
    assert_int_equal(unary(code, "p_through_slot")(1), 8);
    assert_int_equal(through_table(0, 1), 8);
    assert_int_equal(through_table(1, 1), -1);
    assert_int_equal(through_table(2, 4), 8);
    rt_code_close(code);
}

static void
objects_use_constants(void **state)
{
    RtCode *code = open_both();
    double (*scale)(double);
    TfdFunction *function = rt_code_function(code, "p_scale");
    memcpy(&scale, &function, sizeof function);
    (void)state;
    assert_true(scale(2.0) == 3.25);
    rt_code_close(code);
}

static void
objects_call_the_runtime(void **state)
{
    RtCode *code = open_both();
    void (*copy)(void *, const void *, uint64_t);
    char to[600] = "";
    char from[600];
    TfdFunction *function = rt_code_function(code, "p_copy");
    memcpy(&copy, &function, sizeof function);
    (void)state;
    memset(from, 'x', sizeof from);
    copy(to, from, sizeof to);
    assert_memory_equal(to, from, sizeof to);
    rt_code_close(code);
}

static void
names_are_functions(void **state)
{
    RtCode *code = open_both();
    (void)state;
    assert_null(rt_code_function(code, "p_none"));
    assert_null(rt_code_function(code, "table"));
    rt_code_close(code);
}

/* Whether a line of /proc/self/maps lets code be written. */
static bool
has_writable_code(void)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, " rwx") != NULL;
    fclose(maps);
    return found;
}

static void
code_is_not_writable(void **state)
{
    (void)state;
    bool before = has_writable_code();
    RtCode *code = open_both();
    assert_int_equal(has_writable_code(), before);
    rt_code_close(code);
}

static void
perf_learns_names(void **state)
{
    char *text;
    size_t len;
    Arena *a = arena_new(NULL, "perf");
    const char *path = arena_printf(a, "/tmp/perf-%d.map", (int)getpid());
    (void)state;
    setenv("TFD_PERF", "1", 1);
    RtCode *code = open_both();
    unsetenv("TFD_PERF");
    const char *line = arena_printf(
        a, "%lx ", (unsigned long)(uintptr_t)rt_code_function(code, "p_scale"));
    assert_null(file_read(a, path, &text, &len));
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, " p_scale\n"));
    assert_non_null(strstr(text, " one.negate\n"));
    unlink(path);
    rt_code_close(code);
    arena_release(a);
}

static void
assert_refused(const PlanObject *object, int num, const char *part)
{
    RtCode *code;
    assert_status_says(rt_code_open(object, num, &code), STATUS_INPUT, part);
}

static void
strangers_are_refused(void **state)
{
    PlanObject text = {"x.o",
                       "a text, and a long one, that is no object file "
                       "but has the size of a header",
                       70};
    PlanObject same[] = {objects[TWO], objects[TWO]};
    (void)state;
    assert_refused(&objects[OUTSIDE], 1, "\"exit\"");
    assert_refused(&objects[ONE], 1, "\"p_add_seven\"");
    assert_refused(same, 2, "another object defines \"p_");
    assert_refused(&text, 1, "no object file");
}

static void
open_and_close(const char *bytes, size_t size)
{
    RtCode *code;
    PlanObject pair[] = {{"one.o", bytes, size}, objects[TWO]};
    Status st = rt_code_open(pair, 2, &code);
    if (st)
        status_free(st);
    else
        rt_code_close(code);
}

/* A copy of an object, and the header of its first section of a type, or with
 * just these flags; to be freed. */
static char *
copy_with(const PlanObject *o, uint32_t type, uint64_t flags,
          Elf64_Shdr **found)
{
    char *bytes = malloc(o->size);
    memcpy(bytes, o->bytes, o->size);
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)bytes;
    Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + head->e_shoff);
    *found = NULL;
    for (int i = 0; i < head->e_shnum && !*found; i++)
        if (sections[i].sh_type == type &&
            (!flags || sections[i].sh_flags == flags))
            *found = &sections[i];
    assert_non_null(*found);
    return bytes;
}

static void
damages_are_named(void **state)
{
    Elf64_Shdr *section;
    (void)state;
    char *bytes = copy_with(&objects[ONE], SHT_RELA, 0, &section);
    section->sh_type = SHT_REL;
    PlanObject pair[] = {{"a.o", bytes, objects[ONE].size}, objects[TWO]};
    assert_refused(pair, 2, "relocations without addends");
    free(bytes);
    /* each half fits, and both do not */
    bytes = copy_with(&objects[ONE], SHT_NOBITS, 0, &section);
    section->sh_size = (uint64_t)700 << 20;
    char *other =
        copy_with(&objects[TWO], SHT_PROGBITS, SHF_ALLOC | SHF_MERGE, &section);
    section->sh_type = SHT_NOBITS;
    section->sh_size = (uint64_t)700 << 20;
    pair[0] = (PlanObject){"a.o", bytes, objects[ONE].size};
    pair[1] = (PlanObject){"b.o", other, objects[TWO].size};
    assert_refused(pair, 2, "the plan has more than 1 GB of code");
    free(other);
    free(bytes);
}

static void
truncated_objects_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < objects[ONE].size; n++) {
        char *bytes = malloc(n ? n : 1);
        memcpy(bytes, objects[ONE].bytes, n);
        open_and_close(bytes, n);
        free(bytes);
    }
}

static void
damaged_objects_are_survived(void **state)
{
    static const unsigned char flips[] = {0x01, 0x80, 0xff};
    size_t size = objects[ONE].size;
    char *bytes = malloc(size);
    (void)state;
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            memcpy(bytes, objects[ONE].bytes, size);
            bytes[i] = (char)(bytes[i] ^ flips[k]);
            open_and_close(bytes, size);
        }
    }
    free(bytes);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_call_each_other),
        cmocka_unit_test(objects_use_constants),
        cmocka_unit_test(objects_call_the_runtime),
        cmocka_unit_test(names_are_functions),
        cmocka_unit_test(code_is_not_writable),
        cmocka_unit_test(perf_learns_names),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(damages_are_named),
        cmocka_unit_test(truncated_objects_are_refused),
        cmocka_unit_test(damaged_objects_are_survived),
    };
    if (argc != 1 + NUM_OBJECTS)
        return 1;
    arena = arena_new(NULL, "test");
    for (int i = 0; i < NUM_OBJECTS; i++) {
        char *bytes;
        Status st = file_read(arena, argv[i + 1], &bytes, &objects[i].size);
        if (st)
            return status_report(st, "loader_test", stderr);
        objects[i].name = argv[i + 1];
        objects[i].bytes = bytes;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(arena);
    return failed;
}
