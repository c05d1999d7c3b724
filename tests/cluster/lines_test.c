/*
 * lines_test.c - what a process prints, as its parent shows it
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/cluster/launch/lines.h"

static int ends[2]; /* of its output */

static RtLines
new_lines(void)
{
    assert_int_equal(pipe(ends), 0);
    return (RtLines){.fd = ends[0], .label = "[1] "};
}

static void
give(const char *bytes, size_t n)
{
    assert_int_equal(write(ends[1], bytes, n), (ssize_t)n);
}

/* What comes at standard error until the end. */
static size_t
show(RtLines *l, char **out)
{
    size_t n;
    FILE *before = stderr;
    close(ends[1]);
    stderr = open_memstream(out, &n);
    while (rt_lines_pass(l))
        ;
    fclose(stderr);
    stderr = before;
    return n;
}

static void
a_line_may_have_any_bytes(void **state)
{
    static const char line[] = "a\0b\nc\0", shown[] = "[1] a\0b\n[1] c\0\n";
    RtLines l = new_lines();
    char *out;
    (void)state;
    give(line, sizeof line - 1);
    assert_int_equal(show(&l, &out), sizeof shown - 1);
    assert_memory_equal(out, shown, sizeof shown);
    free(out);
}

static void
ignore(int number)
{
    (void)number;
}

static void
a_signal_is_no_end(void **state)
{
    struct sigaction action = {.sa_handler = ignore}, before;
    RtLines l = new_lines();
    char *out;
    (void)state;
    sigaction(SIGALRM, &action, &before);
    alarm(1);
    assert_true(rt_lines_pass(&l)); /* there is nothing yet */
    sigaction(SIGALRM, &before, NULL);
    give("a\n", 2);
    assert_int_equal(show(&l, &out), 6);
    assert_string_equal(out, "[1] a\n");
    free(out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_may_have_any_bytes),
        cmocka_unit_test(a_signal_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
