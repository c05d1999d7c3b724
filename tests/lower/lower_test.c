/*
 * lower_test.c - the IR that the front end makes of each program here
 *
 *   NAME.tfd    the program; lines that begin with #! are options:
 *                 #! devices cpu:0-1    #! strategy mirrored
 *                 #! define N=3         #! widen
 *   NAME.tir    its module, if it is correct
 *   NAME.txt    its messages, if there are any
 *
 *   lower_test SOURCE_ROOT
 *
 * With TFD_BLESS=1 the expected files are rewritten.  parts/ has files that
 * programs use.
 */
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/unit/golden.h"

#include "frontend/frontend.h"

static Arena *arena; /* of the whole run */

/* ---- options ------------------------------------------------------------ */

static const char *
value_of(const char *line, const char *option)
{
    size_t n = strlen(option);
    return strncmp(line, option, n) == 0 ? line + n : NULL;
}

static void
read_option(const char *line, FeOptions *out, Paths *defines)
{
    const char *value;
    if ((value = value_of(line, "devices ")))
        out->devices = value;
    else if ((value = value_of(line, "strategy ")))
        out->strategy = value;
    else if ((value = value_of(line, "define ")))
        VEC_PUSH(arena, *defines, value);
    else if (strcmp(line, "widen") == 0)
        out->widen = true;
    else
        fail_msg("unknown option: %s", line);
}

static FeOptions
read_options(const char *text)
{
    FeOptions out = {0};
    Paths defines = {0};
    for (const char *at = text; strncmp(at, "#! ", 3) == 0;) {
        size_t n = strcspn(at, "\n");
        read_option(arena_strndup(arena, at + 3, n - 3), &out, &defines);
        at += n + (at[n] == '\n');
    }
    out.defines = defines.data;
    out.num_defines = defines.len;
    return out;
}

/* ---- one program -------------------------------------------------------- */

static void
expect_verified(const IrModule *m)
{
    Diag *d = diag_new(arena);
    bool ok = ir_verify(m, d);
    if (!ok)
        print_error("%s%s", ir_module_text(arena, m), diag_text(d, arena));
    assert_true(ok);
}

static void
check_program(void **state)
{
    const char *path = *state;
    size_t len;
    const char *text = golden_read(arena, path, &len);
    FeOptions options = read_options(text);
    options.path = golden_name(path);
    options.text = text;
    options.len = len;
    Diag *d = diag_new(arena);
    IrModule *m = fe_compile(arena, intern_new(arena), d, &options);
    const char *messages = diag_text(d, arena);
    assert_int_equal(m == NULL, diag_num_errors(d) > 0);
    golden_expect(arena, golden_sibling(arena, path, ".txt"),
                  messages[0] ? messages : NULL);
    golden_expect(arena, golden_sibling(arena, path, ".tir"),
                  m ? ir_module_text(arena, m) : NULL);
    if (m)
        expect_verified(m);
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    arena = arena_new(NULL, "test");
    const char *folder = arena_printf(arena, "%s/tests/lower", argv[1]);
    /* Programs use files beside them. */
    int failed = chdir(folder) != 0 ||
                 golden_run(arena, "lower", folder, ".tfd", check_program);
    arena_release(arena);
    return failed;
}
