/*
 * parse_attr.c - attributes of an operation, by the rows of the table
 */
#include "ir/text/parse.h"

#include <string.h>
#include "ir/words.h"

/* Growing lists of literals; the op gets copies. */
typedef VEC(int64_t) Ints;
typedef VEC(const char *) Texts;

static void
parse_ints(Parser *p, IrOp *op, IrAttrName a)
{
    Ints list = {0};
    ir_parse_expect(p, '[');
    while (!p->failed && !ir_parse_accept(p, ']')) {
        if (list.len)
            ir_parse_expect(p, ',');
        VEC_PUSH(p->scratch, list, ir_parse_int(p, INT64_MIN, INT64_MAX));
    }
    ir_set_ints(op, a, list.data, list.len);
}

static void
parse_symbols(Parser *p, IrOp *op, IrAttrName a)
{
    Texts list = {0};
    ir_parse_expect(p, '[');
    while (!p->failed && !ir_parse_accept(p, ']')) {
        if (list.len)
            ir_parse_expect(p, ',');
        VEC_PUSH(p->scratch, list, ir_parse_name(p));
    }
    ir_set_names(op, a, list.data, list.len);
}

static void
parse_dims_attr(Parser *p, IrOp *op, IrAttrName a)
{
    Dim dims[IR_MAX_RANK];
    int rank = ir_parse_dims(p, dims, IR_MAX_RANK);
    ir_set_dims(op, a, dims, rank);
}

/* A bool is 0 or 1 in memory. */
static void
check_bools(Parser *p, Loc at, DType t, const unsigned char *bytes,
            int64_t size)
{
    for (int64_t i = 0; t == DT_bool && i < size; i++) {
        if (bytes[i] > 1) {
            ir_parse_fail(p, at, "a bool is the byte 00 or 01");
            return;
        }
    }
}

typedef VEC(char) Bytes;

static void
parse_elements(Parser *p, IrOp *op, IrAttrName a, DType t)
{
    Bytes bytes = {0};
    int width = (int)dtype_info[t].bytes;
    ir_parse_expect(p, '[');
    while (!p->failed && !ir_parse_accept(p, ']')) {
        if (bytes.len)
            ir_parse_expect(p, ',');
        VEC_RESERVE(p->scratch, bytes, bytes.len + width);
        scalar_store(t, bytes.data + bytes.len, 0, ir_parse_scalar(p, t));
        bytes.len += width;
    }
    ir_set_data(op, a, bytes.data, bytes.len);
}

static void
parse_data(Parser *p, IrOp *op, IrAttrName a)
{
    Loc at = ir_parse_here(p);
    if (!ir_has(op, A_dtype)) {
        ir_parse_fail(p, at, "dtype stands before data");
        return;
    }
    DType t = (DType)ir_int(op, A_dtype);
    if (ir_parse_is(p, '[')) {
        parse_elements(p, op, a, t);
        return;
    }
    int64_t size;
    const void *bytes = ir_parse_hex(p, &size);
    check_bools(p, at, t, bytes, size);
    ir_set_data(op, a, bytes, size);
}

/* "sum mean max": the words that the attribute may be. */
static const char *
allowed_words(Arena *a, const IrAttrInfo *info)
{
    Str s = str_new(a);
    for (int i = 0; ir_words[info->list][i]; i++)
        if (ir_attr_allows(info, i))
            str_addf(&s, "%s%s", s.len ? " " : "", ir_words[info->list][i]);
    return str_text(&s);
}

static void
parse_enum(Parser *p, IrOp *op, const IrAttrInfo *info)
{
    Loc at = ir_parse_here(p);
    const char *word = ir_parse_word(p, "a word");
    int i = ir_word_index(ir_words[info->list], word, strlen(word));
    if (p->failed)
        return;
    if (ir_attr_allows(info, i))
        ir_set_enum(op, info->name, i);
    else
        ir_parse_fail(p, at, "%s of %s is one of: %s; not %s", info->text,
                      ir_op_info[op->kind].name,
                      allowed_words(p->scratch, info), word);
}

static void
parse_value(Parser *p, IrOp *op, const IrAttrInfo *info)
{
    IrAttrName a = info->name;
    switch (info->kind) {
    case INT:
        ir_set_int(op, a, ir_parse_int(p, INT64_MIN, INT64_MAX));
        break;
    case BOOL:
        ir_set_int(op, a, ir_parse_scalar(p, DT_bool).i);
        break;
    case INTS:
        parse_ints(p, op, a);
        break;
    case DTYPE_:
        ir_set_int(op, a, ir_parse_dtype(p));
        break;
    case ENUM:
        parse_enum(p, op, info);
        break;
    case SYMBOL:
        ir_set_text(op, a, ir_parse_name(p));
        break;
    case SYMBOLS:
        parse_symbols(p, op, a);
        break;
    case STRING:
        ir_set_text(op, a, ir_parse_string(p));
        break;
    case DIMS:
        parse_dims_attr(p, op, a);
        break;
    case DATA:
        parse_data(p, op, a);
        break;
    }
}

static const IrAttrInfo *
find_attr(const IrOp *op, const char *name)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    for (int i = 0; i < info->num_attrs; i++) {
        if (strcmp(info->attrs[i].text, name) == 0)
            return &info->attrs[i];
    }
    return NULL;
}

static void
parse_attr(Parser *p, IrOp *op)
{
    const char *op_name = ir_op_info[op->kind].name;
    Loc at = ir_parse_here(p);
    const char *name = ir_parse_word(p, "the name of an attribute");
    ir_parse_expect(p, '=');
    if (p->failed)
        return;
    const IrAttrInfo *info = find_attr(op, name);
    if (!info)
        ir_parse_fail(p, at, "%s has no attribute %s", op_name, name);
    else if (ir_has(op, info->name))
        ir_parse_fail(p, at, "%s has two attributes %s", op_name, name);
    else
        parse_value(p, op, info);
}

/* Whether { begins attributes, not a region: no operation is "word =". */
static bool
begins_attrs(const Parser *p)
{
    Lexer ahead = p->lexer;
    if (!ir_parse_is(p, '{') || p->token.first ||
        ir_lex_next(&ahead).kind != TOKEN_WORD)
        return false;
    Token t = ir_lex_next(&ahead);
    return t.kind == TOKEN_PUNCT && *t.at == '=';
}

void
ir_parse_attrs(Parser *p, IrOp *op)
{
    if (!begins_attrs(p))
        return;
    ir_parse_expect(p, '{');
    while (!p->failed && !ir_parse_accept(p, '}'))
        parse_attr(p, op);
}
