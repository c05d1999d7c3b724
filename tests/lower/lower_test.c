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
 * Places in the standard library are left out, so that an edit of it changes no
 * other test.
 */
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/unit/golden.h"

#include "frontend/frontend.h"
#include "frontend/lib/library.h"
#include "ir/base/str.h"

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

/* ---- places in the library ----------------------------------------------- */

/* Whether the text begins with the name of such a file: "nn.tfd". */
static bool
is_library_file(const char *text)
{
    for (int i = 0; i < fe_library_len; i++)
        if (value_of(text, fe_library[i].file))
            return true;
    return false;
}

/* "nn.tfd:59:26: error: ..." and the "59 |" before the line, without numbers.
 */
static const char *
messages_without_places(const char *text)
{
    Str out = str_new(arena);
    bool inside = false; /* what follows shows a line of the library */
    for (const char *at = text, *end; *at; at = end) {
        int name = 0, place = 0, gutter = 0;
        end = at + strcspn(at, "\n");
        end += *end == '\n';
        sscanf(at, "%*[^:\n ]%n:%*d:%*d:%n", &name, &place);
        if (place)
            inside = is_library_file(at);
        if (inside && place) {
            str_addn(&out, at, (size_t)name + 1);
            at += place;
        } else if (inside && sscanf(at, " %*d %n", &gutter) == 0 && gutter) {
            str_addf(&out, "%*s", gutter, "");
            at += gutter;
        }
        str_addn(&out, at, (size_t)(end - at));
    }
    return str_text(&out);
}

/* The file of a place "1/59:26+3", and its end; or NULL if it has none. */
static const char *
place_end(const char *text, int *file)
{
    int n = 0;
    if (sscanf(text, "%d/%*d:%*d%n", file, &n) != 1 || !n)
        return NULL;
    text += n;
    return *text == '+' ? text + 1 + strspn(text + 1, "0123456789") : text;
}

/* " at 1/59:26+3" as " at 1/1:1+1" where source 1 is the library's. */
static const char *
module_without_places(const char *text)
{
    static const char before[] = " at ";
    Str out = str_new(arena);
    for (const char *at; (at = strstr(text, before)); text = at) {
        int file;
        at += strlen(before);
        str_addn(&out, text, (size_t)(at - text));
        const char *end = place_end(at, &file);
        const char *source =
            !end ? NULL
                 : strstr(str_text(&out),
                          arena_printf(arena, "\nsource %d \"", file));
        if (source && is_library_file(strchr(source, '"') + 1)) {
            str_addf(&out, "%d/1:1+1", file);
            at = end;
        }
    }
    str_add(&out, text);
    return str_text(&out);
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
                  messages[0] ? messages_without_places(messages) : NULL);
    golden_expect(arena, golden_sibling(arena, path, ".tir"),
                  m ? module_without_places(ir_module_text(arena, m)) : NULL);
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
