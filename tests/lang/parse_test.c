/*
 * parse_test.c - the parser on valid, wrong and hostile text
 *
 * What every text must do, whatever is in it: give either a tree, whose text
 * parses back to the same text, or errors.  Under a sanitizer it must not leak
 * or read past its end either, so texts are parsed from blocks of their exact
 * size.
 *
 *   parse_test SOURCE_ROOT
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include "frontend/syntax/parse.h"
#include "ir/base/io/file.h"

static const char *source_root;
/* ---- parsing ---- */

typedef struct Parsed {
    AstNode *tree; /* or NULL, and then */
    const char *errors;
} Parsed;

static Parsed
parse_bytes(Arena *a, const char *text, size_t len)
{
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "t.tfd", text, len);
    AstNode *tree = fe_parse(a, intern_new(a), d, file, text, len);
    assert_int_equal(tree == NULL, diag_num_errors(d) > 0);
    return (Parsed){tree, diag_text(d, a)};
}

static Parsed
parse(const char *text)
{
    return parse_bytes(arena, text, strlen(text));
}

static const char *
print(Arena *a, const AstNode *tree)
{
    Str s = str_new(a);
    fe_ast_print(&s, tree);
    return str_text(&s);
}

static void
expect_tree_that_reads_back(Arena *a, const AstNode *tree)
{
    const char *once = print(a, tree);
    Parsed again = parse_bytes(a, once, strlen(once));
    if (!again.tree)
        print_error("%s\n%s", once, again.errors);
    assert_non_null(again.tree);
    assert_string_equal(print(a, again.tree), once);
}

/* Either errors, or a tree that reads back. */
static bool
survive(const char *text, size_t len)
{
    Arena *a = arena_new(NULL, "one text");
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, text, len);
    Parsed p = parse_bytes(a, exact, len);
    bool ok = p.tree != NULL;
    if (ok)
        expect_tree_that_reads_back(a, p.tree);
    arena_release(a);
    free(exact);
    return ok;
}

static void
expect_error(const char *text, const char *message)
{
    Parsed p = parse(text);
    if (p.tree || !strstr(p.errors, message))
        print_error("%.200s\ngives: %s\n", text,
                    p.tree ? "no error" : p.errors);
    assert_null(p.tree);
    assert_non_null(strstr(p.errors, message));
}

static void
expect_ok(const char *text)
{
    Parsed p = parse(text);
    if (!p.tree)
        print_error("%.200s\ngives: %s\n", text, p.errors);
    assert_non_null(p.tree);
    expect_tree_that_reads_back(arena, p.tree);
}

/* ---- the examples ---- */

static const char *const examples[] = {
    "bigram", "charlm", "contexts", "convnet", "linear", "ragged", "spiral"};
enum { NUM_EXAMPLES = sizeof examples / sizeof *examples };

static char *
read_example(int i, size_t *len)
{
    char *text;
    const char *path = arena_printf(arena, "%s/docs/examples/%s.tfd",
                                    source_root, examples[i]);
    assert_null(file_read(arena, path, &text, len));
    return text;
}

static void
examples_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        size_t len;
        const char *text = read_example(i, &len);
        assert_true(survive(text, len));
    }
}

static void
truncations_survive(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        size_t len;
        const char *text = read_example(i, &len);
        for (size_t n = 0; n < len; n++)
            survive(text, n);
    }
}

/* ---- mutations ---- */

static uint64_t random_state;

static size_t
random_below(size_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % n;
}

static const char *const pieces[] = {
    "{",          "}",           "(",          ")",      "[",         "]",
    "\"",         "\n",          ".",          "..",     ":",         ",",
    ";",          "=",           "==",         "+",      "-",         "**",
    " fn ",       " fn f(x) ",   " if ",       " else ", " with ",    " run f",
    " update v ", " merge (a) ", " for x in ", " let ",  " mut ",     " main ",
    " module ",   " slot ",      " none ",     " not ",  "1.",        ".5",
    "1e9",        "#",           "{{",         "\\",     "\xc3\xa9",  "\x80",
    "\t",         "++",          "//",         " var ",  " dataset ",
};

static size_t
insert(char *text, size_t len, size_t at, const char *piece, size_t n)
{
    memmove(text + at + n, text + at, len - at);
    memcpy(text + at, piece, n);
    return len + n;
}

/* Changes text, which has room for 64 bytes more; returns its new length. */
static size_t
mutate(char *text, size_t len)
{
    char copy[32];
    size_t at = random_below(len), n = random_below(sizeof copy);
    const char *piece;
    if (n > len - at)
        n = len - at;
    switch (random_below(4)) {
    case 0:
        text[at] = (char)random_below(256);
        return len;
    case 1:
        memmove(text + at, text + at + n, len - at - n);
        return len - n;
    case 2:
        memcpy(copy, text + at, n);
        return insert(text, len, random_below(len), copy, n);
    default:
        piece = pieces[random_below(sizeof pieces / sizeof *pieces)];
        return insert(text, len, at, piece, strlen(piece));
    }
}

static void
mutations_survive(void **state)
{
    enum { COUNT = 2000, MAX_CHANGES = 3 };
    (void)state;
    random_state = 1;
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        size_t len;
        const char *text = read_example(i, &len);
        char *changed = arena_alloc(arena, len + 64 * MAX_CHANGES);
        for (int k = 0; k < COUNT; k++) {
            size_t n = len;
            memcpy(changed, text, len);
            for (size_t c = 1 + random_below(MAX_CHANGES); c && n; c--)
                n = mutate(changed, n);
            survive(changed, n);
        }
    }
}

/* ---- depth and size ---- */

/* before, then n times open, then middle, then n times close, then after. */
static const char *
nested(const char *before, const char *open, int n, const char *middle,
       const char *close, const char *after)
{
    Str s = str_new(arena);
    str_add(&s, before);
    for (int i = 0; i < n; i++)
        str_add(&s, open);
    str_add(&s, middle);
    for (int i = 0; i < n; i++)
        str_add(&s, close);
    str_add(&s, after);
    return str_text(&s);
}

static void
nesting_has_a_limit(void **state)
{
    (void)state;
    static const struct {
        const char *before, *open, *middle, *close, *after;
        int fits; /* 0: not asked */
    } rows[] = {
        {"const X = ", "(", "1", ")", "", 256},
        {"const X = ", "[", "1", "]", "", 256},
        {"const X = ", "f(", "1", ")", "", 256},
        {"main {", "if a {", "f()", "}", "}", 254},
        {"main {", "f(fn() {", "f()", "})", "}", 100},
        {"const X = ", "\"{", "1", "}\"", "", 128},
        {"const X = ", "not ", "1", "", "", 1000},
        {"const X = ", "-", "1", "", "", 1000},
        {"const X = ", "a ** ", "1", "", "", 1000},
        {"const X = ", "a + ", "1", "", "", 1000},
        {"const X = a", ".b", "", "", "", 1000},
        {"const X = a", "[0]", "", "", "", 1000},
        {"const X = ", "fn() = ", "1", "", "", 1000},
        {"main { ", "if a { } else ", "{ }", "", "}", 500},
        {"const X = ", "(((", "", "", "", 0},
        {"const X = ", "[a, (", "", "", "", 0},
        {"main {", "{", "", "", "", 0},
        {"const X = ", ")", "", "", "", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = nested(rows[i].before, rows[i].open, rows[i].fits,
                                  rows[i].middle, rows[i].close, rows[i].after);
        if (rows[i].fits)
            expect_ok(text);
        text = nested(rows[i].before, rows[i].open, 20000, rows[i].middle,
                      rows[i].close, rows[i].after);
        assert_null(parse(text).tree);
    }
    expect_error(nested("const X = ", "(", 257, "1", ")", ""),
                 "nested more than 256 deep");
    expect_error(nested("const X = ", "-", 5000, "1", "", ""),
                 "nested too deeply");
}

static void
long_texts_are_read(void **state)
{
    (void)state;
    expect_ok(nested("const X = [", "1, ", 100000, "", "", "]"));
    expect_ok(nested("main {", "f(x)\n", 50000, "", "", "}"));
    expect_ok(nested("const X = ", "1", 1000, "", "", ""));
    expect_ok(nested("const X = ", "name", 250, "", "", ""));
    expect_error(nested("const X = ", "1", 100000, "", "", ""),
                 "a name or number of more than 1000 characters");
    expect_error(nested("const X = ", "name", 50000, "", "", ""),
                 "a name or number of more than 1000 characters");
    assert_null(parse(nested("", "$ ", 100000, "", "", "")).tree);
    assert_null(parse(nested("", "const\n", 100000, "", "", "")).tree);
}

static void
bytes_are_checked(void **state)
{
    (void)state;
    static const char zero[] = "const X = \"a\0b\"";
    Parsed p = parse_bytes(arena, zero, sizeof zero - 1);
    assert_non_null(strstr(p.errors, "t.tfd:1:13: error: a zero byte"));
    expect_error("# \xff\n", "t.tfd:1:3: error: the text is not UTF-8 here");
    expect_error("# \xed\xa0\x80", "not UTF-8");
    expect_error("# a\nconst X = \"\xc3", "t.tfd:2:12: error: the text is not");
    expect_error("const X = \xc3\xa9", "unknown character \xc3\xa9");
    expect_error("const X = \x01", "unknown character, number 1");
    expect_ok("");
    expect_ok("\n\n  # nothing");
    expect_ok("const X = \"\xc3\xa9 \xf0\x9f\x99\x82\" # \xe2\x82\xac");
    expect_ok("\xef\xbb\xbf"
              "const X = 1\r\nconst Y = 2\r\n");
}

/* ---- places ---- */

static const AstNode *
decl(const Parsed *p, int i)
{
    assert_non_null(p->tree);
    assert_true(i < p->tree->program.decls.len);
    return p->tree->program.decls.data[i];
}

static void
expect_loc(Loc loc, uint32_t line, uint32_t col, uint16_t len)
{
    assert_int_equal(loc.line, line);
    assert_int_equal(loc.col, col);
    assert_int_equal(loc.len, len);
}

static void
nodes_have_places(void **state)
{
    (void)state;
    Parsed p = parse("const N = 3\n"
                     "let x = (a +  b) * f(c,\n"
                     "  d)\n"
                     "let s = \"ab {x.y:.3f} c\"\n"
                     "fn step(x) {\n"
                     "  w -= 0.1 * dw\n"
                     "}");
    expect_loc(decl(&p, 0)->loc, 1, 7, 1);
    const AstNode *product = decl(&p, 1)->let.value;
    expect_loc(product->loc, 2, 9, 15);
    expect_loc(product->binary.left->loc, 2, 10, 6);
    assert_true(product->binary.left->in_parens);
    expect_loc(product->binary.right->loc, 2, 20, 4);
    expect_loc(product->binary.right->call.args.data[1]->loc, 3, 3, 1);
    AstList text = decl(&p, 2)->let.value->string.pieces;
    expect_loc(text.data[0]->loc, 4, 10, 3);
    expect_loc(text.data[1]->loc, 4, 13, 9);
    expect_loc(text.data[1]->hole.value->loc, 4, 14, 3);
    assert_string_equal(text.data[1]->hole.format, ".3f");
    const AstNode *step = decl(&p, 3);
    expect_loc(step->loc, 5, 4, 4);
    expect_loc(step->fn.body->loc, 5, 12, 1);
    const AstNode *assign = step->fn.body->block.stmts.data[0];
    expect_loc(assign->loc, 6, 3, 13);
    expect_loc(assign->assign.value->loc, 6, 8, 8);
}

/* ---- the tree ---- */

static void
expressions_are_written_shortly(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"((a))", "a"},
        {"(a*b)+c", "a * b + c"},
        {"a*(b+c)", "a * (b + c)"},
        {"(a-b)-c", "a - b - c"},
        {"a-(b-c)", "a - (b - c)"},
        {"-(x**2)", "-x ** 2"},
        {"(-x)**2", "(-x) ** 2"},
        {"a**(b**c)", "a ** b ** c"},
        {"(a**b)**c", "(a ** b) ** c"},
        {"a**(-b)", "a ** -b"},
        {"a**(-b**c)", "a ** -b ** c"},
        {"a**(not b)", "a ** (not b)"},
        {"not(a==b)", "not a == b"},
        {"(not a)==b", "(not a) == b"},
        {"(a==b)==c", "(a == b) == c"},
        {"a and(b or c)", "a and (b or c)"},
        {"(a and b)or c", "a and b or c"},
        {"all_reduce(sum,(0.1*dw))", "all_reduce(sum, 0.1 * dw)"},
        {"(f)(x).y[0 , :]", "f(x).y[0, :]"},
        {"(a+b).c", "(a + b).c"},
        {"(1).c + 1[0]", "(1).c + (1)[0]"},
        {"(run f(x)).0", "run f(x).0"},
        {"(if a {b} else {c})+1", "(if a { b } else { c }) + 1"},
        {"(fn(x)=x)(1)", "(fn(x) = x)(1)"},
        {"f(fn(x) {\n let y = x\n\n return y })",
         "f(fn(x) { let y = x; return y })"},
        {"[a+g for (a,g) in zip(x,y) if a]",
         "[a + g for (a, g) in zip(x, y) if a]"},
        {"(x,)", "(x,)"},
        {"(a:1,b:2,)", "(a: 1, b: 2)"},
        {"x[1:3,:,::-1,none]", "x[1:3, :, ::-1, none]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Parsed p = parse(arena_printf(arena, "let x = %s\n", rows[i].from));
        const char *text = fe_ast_text(arena, decl(&p, 0)->let.value);
        assert_string_equal(text, rows[i].to);
        expect_tree_that_reads_back(arena, p.tree);
    }
}

static const AstNode *
value_of(const char *expr)
{
    Parsed p = parse(arena_printf(arena, "let x = %s", expr));
    return decl(&p, 0)->let.value;
}

static void
literals_have_values(void **state)
{
    (void)state;
    int64_t i;
    assert_true(fe_ast_int_value(value_of("1_000"), &i));
    assert_int_equal(i, 1000);
    assert_true(fe_ast_int_value(value_of("9223372036854775807"), &i));
    assert_true(i == INT64_MAX);
    assert_false(fe_ast_int_value(value_of("9223372036854775808"), &i));
    assert_true(fe_ast_negated_value(value_of("9223372036854775808"), &i));
    assert_true(i == INT64_MIN);
    assert_false(fe_ast_negated_value(value_of("9223372036854775809"), &i));
    assert_true(fe_ast_float_value(value_of("1_0.5e-1")) == 1.05);
    assert_true(fe_ast_float_value(value_of("1e999")) > 1e308);
    assert_true(value_of("1e3")->number.is_float);
    assert_false(value_of("13")->number.is_float);
    assert_string_equal(fe_ast_string_text(value_of("\"a{{\\n\"")), "a{\n");
    assert_string_equal(fe_ast_string_text(value_of("\"\"")), "");
    assert_null(fe_ast_string_text(value_of("\"{a}\"")));
}

static void
children_come_in_order(void **state)
{
    (void)state;
    const AstNode *n = value_of("f(a, b, axis = c)");
    AstIter it = fe_ast_children(n);
    AstNode *child;
    Str names = str_new(arena);
    while ((child = fe_ast_next_child(&it)))
        str_addf(&names, "%s ", fe_ast_text(arena, child));
    assert_string_equal(str_text(&names), "f a b axis = c ");
    assert_int_equal(n->depth, 3);
    it = fe_ast_children(value_of("none"));
    assert_null(fe_ast_next_child(&it));
}

/* ---- many errors in one go ---- */

static void
errors_are_found_in_one_go(void **state)
{
    (void)state;
    Parsed p = parse("fn f(x) = x +\n"
                     "fn g(x) {\n"
                     "  let y = (x\n"
                     "  return y\n"
                     "}\n"
                     "const N 3\n"
                     "const M = 4\n"
                     "main {\n"
                     "  f(]\n"
                     "  let z = 3\n"
                     "}\n");
    assert_null(p.tree);
    assert_non_null(strstr(p.errors, "t.tfd:1:13: error: expected an expre"));
    assert_non_null(strstr(p.errors, "t.tfd:3:12: error: a ( is not closed"));
    assert_non_null(strstr(p.errors, "t.tfd:6:9: error: expected \"=\""));
    assert_non_null(strstr(p.errors, "t.tfd:9:5: error: expected"));
    int count = 0;
    for (const char *e = p.errors; (e = strstr(e, "error:")); e++)
        count++;
    assert_int_equal(count, 4);
}

int
main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, new_arena, release_arena)
        TEST(examples_read_back),         TEST(truncations_survive),
        TEST(mutations_survive),          TEST(nesting_has_a_limit),
        TEST(long_texts_are_read),        TEST(bytes_are_checked),
        TEST(nodes_have_places),          TEST(expressions_are_written_shortly),
        TEST(literals_have_values),       TEST(children_come_in_order),
        TEST(errors_are_found_in_one_go),
    };
    if (argc != 2)
        return 2;
    source_root = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
