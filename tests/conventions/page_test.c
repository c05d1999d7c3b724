/*
 * page_test.c - a page of docs/ equals the one that the build generates
 *
 *   page_test GENERATED KEPT
 */
#include "tests/unit/unit.h"

static const char *generated, *kept;

static char *
read_all(const char *path)
{
    enum { MAX = 1 << 20 };
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, MAX + 1);
    assert_non_null(text);
    assert_true(fread(text, 1, MAX, f) < MAX);
    fclose(f);
    return text;
}

static void
is_up_to_date(void **state)
{
    (void)state;
    char *want = read_all(generated), *have = read_all(kept);
    bool same = strcmp(want, have) == 0;
    free(want);
    free(have);
    if (!same)
        fail_msg("%s is not what the build makes: "
                 "meson compile -C build docs writes it",
                 kept);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_up_to_date)};
    if (argc < 3)
        return 99;
    generated = argv[1];
    kept = argv[2];
    return cmocka_run_group_tests_name(kept, tests, NULL, NULL);
}
