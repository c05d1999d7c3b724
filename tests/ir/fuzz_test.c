/*
 * fuzz_test.c - the reader and the verifier accept any bytes without crashing
 *
 * Truncations and seeded mutations of every file: the reader refuses them with
 * a message or returns a module; the verifier refuses or accepts the module; an
 * accepted module is printed, read and printed again to the same text.  The
 * sanitizers find crashes, leaks and wrong accesses.
 */
#include "tests/unit/unit.h"

#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/ir/folder.h"

enum { MUTATIONS = 1600, TRUNCATIONS = 60 };

static const char *folder;

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t
below(uint64_t *state, size_t n)
{
    return (size_t)(next_random(state) % n);
}

static IrModule *
read_text(Arena *a, Diag *d, const char *text, size_t len)
{
    uint16_t source = diag_add_source(d, "fuzz.tir", text, len);
    return ir_parse(a, intern_new(a), d, source, text, len);
}

static void
check_text(const char *text, size_t len)
{
    Arena *a = arena_new(NULL, "fuzz");
    Diag *d = diag_new(a);
    /* Of exactly its size, so that a read past the end is seen. */
    char *bytes = arena_copy(a, text, len);
    IrModule *m = read_text(a, d, bytes, len);
    if (!m) {
        assert_true(diag_num_errors(d) > 0);
    } else {
        const char *once = ir_module_text(a, m);
        IrModule *again = read_text(a, d, once, strlen(once));
        if (!again)
            fail_msg("%s", diag_text(d, a));
        assert_string_equal(ir_module_text(a, again), once);
        assert_true(ir_verify(m, d) || diag_num_errors(d) > 0);
    }
    assert_non_null(diag_text(d, a));
    arena_release(a);
}

/* Copies, moves or removes a piece, or changes a byte, of text in a buffer that
 * has room for twice its length. */
static size_t
mutate(uint64_t *r, char *text, size_t len)
{
    static const char special[] = "{}()[],:=*+-/<%@\"#\n 0129.nNe\xff";
    size_t at = below(r, len), n = 1 + below(r, 24);
    if (n > len - at)
        n = len - at;
    switch (below(r, 4)) {
    case 0:
        text[at] = special[below(r, sizeof special)];
        return len;
    case 1: /* remove */
        memmove(text + at, text + at + n, len - at - n);
        return len - n;
    case 2: /* double */
        memmove(text + at + n, text + at, len - at);
        return len + n;
    default: /* copy something from elsewhere over it */
        memmove(text + at, text + below(r, len - n + 1), n);
        return len;
    }
}

static void
mutate_file(Arena *files, const TirFile *f, uint64_t seed)
{
    uint64_t r = seed;
    char *text = arena_alloc(files, f->len * 2 + 64);
    for (int i = 0; i < MUTATIONS; i++) {
        size_t len = f->len, times = 1 + below(&r, 3);
        memcpy(text, f->text, len);
        while (times-- && len > 1)
            len = mutate(&r, text, len);
        check_text(text, len);
    }
}

static void
survives_mutations(void **state)
{
    (void)state;
    Arena *files = arena_new(NULL, "test");
    TirFiles list = tir_files(files, folder);
    for (int i = 0; i < list.len; i++)
        mutate_file(files, &list.data[i], 0x9e3779b97f4a7c15u + (unsigned)i);
    arena_release(files);
}

static void
survives_truncations(void **state)
{
    (void)state;
    Arena *files = arena_new(NULL, "test");
    TirFiles list = tir_files(files, folder);
    for (int i = 0; i < list.len; i++) {
        size_t step = list.data[i].len / TRUNCATIONS + 1;
        for (size_t len = 0; len < list.data[i].len; len += step)
            check_text(list.data[i].text, len);
    }
    arena_release(files);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_mutations),
        cmocka_unit_test(survives_truncations),
    };
    folder = argc > 1 ? argv[1] : "tests/ir";
    return cmocka_run_group_tests_name("ir fuzz", tests, NULL, NULL);
}
