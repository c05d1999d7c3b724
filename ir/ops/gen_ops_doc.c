/*
 * gen_ops_doc.c - docs/ops.md from the tables (a program of the build)
 *
 * A rule that a row names but that has no description here stops the build.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/dataset/stage.h"
#include "ir/ops/op.h"

typedef struct Word {
    const char *name, *meaning;
} Word;

static const Word shapes[] = {
    {"attr_dims", "as the attribute dims says"},
    {"scalar", "no axes"},
    {"same", "the operand's"},
    {"each", "result i has that of operand i"},
    {"broadcast", "the operands' together, as in NumPy"},
    {"expand", "dims, to which the operand broadcasts"},
    {"reduce", "the operand's without the axes, or with 1 for each"},
    {"cross_reduce", "the operand's without the axes; no rows of one replica"},
    {"dot", "batch axes, then those of x alone, then those of y alone"},
    {"conv", "rows, dims, new channels"},
    {"conv_weights", "dims, channels of a group, new channels"},
    {"reshape", "dims, with as many elements as the operand"},
    {"transpose", "the operand's in another order"},
    {"slice", "dims, all of whose indices are in the operand"},
    {"pad", "dims, in which all elements of the operand have room"},
    {"take", "x's, with y's in the place of the axis"},
    {"concat", "the operands', added along the axis"},
    {"scatter", "x's; z has those, with y's in place of the axis"},
    {"along", "the operand's"},
    {"row", "the operand's, which has a last axis; of that the first"},
    {"reorder", "y's: x's, or less along the last axis"},
    {"gather", "the operand's with the rows of all replicas along the axis"},
    {"local", "the operand's; the same on all replicas"},
    {"var", "the variable's"},
    {"none", "no result"},
    {"given", "set by who makes it, checked by the verifier"},
};

static const Word dtypes[] = {
    {"attr", "the attribute dtype"},
    {"any", "any; the operand's"},
    {"equal", "any, equal; the operands'"},
    {"numeric", "numbers, equal; the operands'"},
    {"product", "numbers, equal; the operands', or `dtype`"},
    {"float", "floats, equal; the operands'"},
    {"boolean", "bool"},
    {"bits", "i64, the same"},
    {"float_to_bool", "a float; gives bool"},
    {"compare", "any, equal; gives bool"},
    {"order", "numbers, equal; gives bool"},
    {"where", "bool, then two of any, equal; theirs"},
    {"take", "any, and an integer; the first operand's"},
    {"scatter", "numbers (any for set), an integer, x's; x's"},
    {"arg", "a number; gives i64"},
    {"all_reduce", "numbers, floats for mean; the operand's"},
    {"cross_reduce", "numbers, floats for mean; the operand's"},
    {"param", "the param's"},
    {"var", "the variable's"},
    {"write", "the variable's, also its shape"},
    {"assert", "a bool scalar, then any"},
    {"bool", "bool"},
    {"i32", "i32"},
    {"i64", "i64"},
    {"f64", "f64"},
    {"none", "any"},
    {"given", "set by who makes it, checked by the verifier"},
};

static const Word localities[] = {
    {"join", "the greatest of the operands', at least the context's; "
             "per_replica with the rows of one replica"},
    {"context", "host in main, else mirrored; per_replica with the rows of "
                "one replica"},
    {"dim", "per_replica for the rows of one replica, else the context's"},
    {"host", "host"},
    {"first", "that of the first operand"},
    {"mirrored", "mirrored"},
    {"replica", "per_replica"},
    {"var", "the context's; per_replica for a replica's own part of a "
            "sync-on-read variable"},
    {"on", "on the attribute var, or mirrored"},
    {"none", "no result"},
    {"given", "set by who makes it, at least what regions and operands say"},
};

static const Word indices[] = {
    [INDEXES_none] = {"", NULL},
    [INDEXES_part] = {"part", "operand 1 names parts of x along the axis; one "
                              "that is not there is clamped"},
    [INDEXES_row] = {"row",
                     "operand 1 names rows of x; one that is not there is "
                     "left out"},
    [INDEXES_order] = {"order",
                       "operand 1 is an order of x's last axis, made by "
                       "compilers alone; clamped"},
};

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

static const char *const effects[NUM_OPS] = {
#define OP(name, in, out, regions, shape, dtype, locality, effect, ...) #effect,
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
};

static const struct {
    unsigned bit;
    const char *name;
} traits[] = {
    {ELEMENTWISE, "elementwise"}, {COMMUTES, "commutes"},
    {REDUCES, "reduces"},         {VIEW, "view"},
    {TERMINATOR, "terminator"},   {MOVES, "moves"},
};

static const char *const attr_kinds[] = {
    [INT] = "integer",    [BOOL] = "bool",     [INTS] = "integers",
    [DTYPE_] = "dtype",   [ENUM] = "word",     [SYMBOL] = "@name",
    [SYMBOLS] = "@names", [STRING] = "string", [DIMS] = "dimensions",
    [DATA] = "elements",
};

static void
check_explained(const Word *words, int n, const char *rule)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i].name, rule) == 0)
            return;
    }
    fprintf(stderr, "gen_ops_doc: the rule %s is not explained\n", rule);
    exit(1);
}

static void
print_words(const char *title, const Word *words, int n)
{
    printf("\n| %s | |\n| --- | --- |\n", title);
    for (int i = 0; i < n; i++)
        printf("| %s | %s |\n", words[i].name, words[i].meaning);
}

/* attrs.def as Markdown. */
static void
print_word_lists(void)
{
    printf("\n## Words\n\nWhat the words mean that an attribute may be "
           "(`ir/ops/attrs.def`).\n");
#define WORD_LIST(LIST, doc) printf("\n| %s | |\n| --- | --- |\n", doc);
#define AGG(word, doc) printf("| %s | %s |\n", #word, doc);
#define UPDATE(word, floats, ints, doc) AGG(word, doc)
#define ALGORITHM(word, has_packs, doc) AGG(word, doc)
#include "ir/ops/attrs.def"
}

static void
print_count(int n)
{
    if (n < 0)
        printf("| any ");
    else
        printf("| %d ", n);
}

static void
print_traits(const IrOpInfo *info)
{
    const char *before = "";
    printf("| ");
    for (int i = 0; i < LENGTH(traits); i++) {
        if (!(info->traits & traits[i].bit))
            continue;
        printf("%s%s", before, traits[i].name);
        before = ", ";
    }
    printf("%s", *before ? " " : "");
}

/* "one of sum, mean, max" */
static void
print_allowed(const IrAttrInfo *a)
{
    const char *before = "one of ";
    for (int i = 0; ir_words[a->list][i]; i++) {
        if (!ir_attr_allows(a, i))
            continue;
        printf("%s%s", before, ir_words[a->list][i]);
        before = ", ";
    }
}

static void
print_attr(const IrAttrInfo *a, bool first)
{
    printf("%s- `%s`, ", first ? "\n" : "", a->text);
    if (a->kind == ENUM)
        print_allowed(a);
    else
        printf("%s", attr_kinds[a->kind]);
    printf("%s: %s\n", a->required ? "" : ", may be left out", a->doc);
}

static void
print_op(int kind)
{
    const IrOpInfo *info = &ir_op_info[kind];
    check_explained(shapes, LENGTH(shapes), info->shape_rule);
    check_explained(dtypes, LENGTH(dtypes), info->dtype_rule);
    check_explained(localities, LENGTH(localities), info->locality_rule);
    printf("\n### %s\n\n%s.\n\n", info->name, info->doc);
    printf("| operands | results | regions | shape | dtype | locality "
           "| effect | traits | index | gradient | kernel |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- "
           "|\n");
    print_count(info->num_in);
    print_count(info->num_out);
    print_count(info->num_regions);
    printf("| %s | %s | %s | %s ", info->shape_rule, info->dtype_rule,
           info->locality_rule, effects[kind]);
    print_traits(info);
    const char *names = indices[info->index].name;
    printf("| %s%s| %s | %s |\n", names, *names ? " " : "", info->grad,
           ir_code_info[info->code].name);
    for (int i = 0; i < info->num_attrs; i++)
        print_attr(&info->attrs[i], i == 0);
}

static void
print_stage(const IrStageInfo *info)
{
    printf("| %s | %s | %s%s%s%s| %s |\n", info->name, info->int_names,
           info->reads ? "paths " : "", info->has_names ? "names " : "",
           info->has_func ? "function " : "", info->has_other ? "dataset " : "",
           info->doc);
}

int
main(void)
{
    printf("# Operations\n\n"
           "Made from `ir/ops/ops.def` and `ir/dataset/stages.def` by "
           "`ir/ops/gen_ops_doc.c`; "
           "a test compares.\n"
           "[ir.md](ir.md) says how operations are written.\n\n"
           "## Rules\n\n"
           "What the columns shape, dtype, locality and index of an "
           "operation name.\n");
    print_words("shape", shapes, LENGTH(shapes));
    print_words("dtype", dtypes, LENGTH(dtypes));
    print_words("locality", localities, LENGTH(localities));
    print_words("index", indices + 1, LENGTH(indices) - 1);
    print_word_lists();
    printf("\n## Every operation\n");
    for (int kind = 0; kind < NUM_OPS; kind++)
        print_op(kind);
    printf("\n## Stages of datasets\n\n"
           "| stage | integers | has | |\n| --- | --- | --- | --- |\n");
    for (int kind = 0; kind < NUM_STAGES; kind++)
        print_stage(&ir_stage_info[kind]);
    return 0;
}
