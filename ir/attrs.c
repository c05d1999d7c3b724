/*
 * attrs.c - attributes of operations
 *
 * Lists and data are copied into the module's arena, texts are interned.
 */

#include "ir/ir.h"

#include <assert.h>
#include <string.h>
#include "ir/base/status.h"

static IrAttrValue *
attr_of(const IrOp *op, IrAttrName a)
{
    int i = ir_attr_index(op->kind, a);
    if (i < 0)
        UNREACHABLE("%s has no attribute %s", ir_op_info[op->kind].name,
                    ir_attr_text[a]);
    return &op->attrs[i];
}

bool
ir_has(const IrOp *op, IrAttrName a)
{
    int i = ir_attr_index(op->kind, a);
    return i >= 0 && op->attrs[i].present;
}

int64_t
ir_int(const IrOp *op, IrAttrName a)
{
    return attr_of(op, a)->i;
}

int
ir_enum(const IrOp *op, IrAttrName a)
{
    const IrAttrValue *v = attr_of(op, a);
    assert(ir_attr_info(op->kind, a)->kind == ENUM);
    return (int)v->i;
}

const char *
ir_enum_word(const IrOp *op, IrAttrName a)
{
    return ir_words[ir_attr_info(op->kind, a)->list][ir_enum(op, a)];
}

const char *
ir_text(const IrOp *op, IrAttrName a)
{
    return attr_of(op, a)->text;
}

static const void *
list_of(const IrOp *op, IrAttrName a, int *count)
{
    const IrAttrValue *v = attr_of(op, a);
    *count = v->list.count;
    return v->list.items;
}

const int64_t *
ir_ints(const IrOp *op, IrAttrName a, int *count)
{
    return list_of(op, a, count);
}

const Dim *
ir_dims(const IrOp *op, IrAttrName a, int *count)
{
    return list_of(op, a, count);
}

const char *const *
ir_names(const IrOp *op, IrAttrName a, int *count)
{
    return list_of(op, a, count);
}

const void *
ir_data(const IrOp *op, IrAttrName a, int64_t *size)
{
    const IrAttrValue *v = attr_of(op, a);
    *size = v->data.size;
    return v->data.bytes;
}

void
ir_set_int(IrOp *op, IrAttrName a, int64_t x)
{
    *attr_of(op, a) = (IrAttrValue){.present = true, .i = x};
}

void
ir_set_enum(IrOp *op, IrAttrName a, int x)
{
    assert(ir_attr_allows(ir_attr_info(op->kind, a), x));
    ir_set_int(op, a, x);
}

void
ir_set_text(IrOp *op, IrAttrName a, const char *text)
{
    IrAttrValue *v = attr_of(op, a);
    *v = (IrAttrValue){.present = text != NULL};
    if (text)
        v->text = intern(op->module->names, text);
}

/* items, an array of `count` things of that size, copied into op's arena. */
static void
set_list(IrOp *op, IrAttrName a, const void *items, int count, size_t size)
{
    IrAttrValue *v = attr_of(op, a);
    assert(count >= 0 && (items || !count));
    *v = (IrAttrValue){.present = true};
    v->list.count = count;
    v->list.items = arena_copy(op->module->arena, items, (size_t)count * size);
}

void
ir_set_ints(IrOp *op, IrAttrName a, const int64_t *x, int count)
{
    set_list(op, a, x, count, sizeof *x);
}

void
ir_set_dims(IrOp *op, IrAttrName a, const Dim *x, int count)
{
    set_list(op, a, x, count, sizeof *x);
}

void
ir_set_names(IrOp *op, IrAttrName a, const char *const *x, int count)
{
    IrModule *m = op->module;
    const char **names = NEW_ARRAY(m->arena, const char *, (size_t)count);
    for (int i = 0; i < count; i++)
        names[i] = intern(m->names, x[i]);
    IrAttrValue *v = attr_of(op, a);
    *v = (IrAttrValue){.present = true};
    v->list.count = count;
    v->list.items = names;
}

void
ir_unset(IrOp *op, IrAttrName a)
{
    *attr_of(op, a) = (IrAttrValue){.present = false};
}

void
ir_set_data(IrOp *op, IrAttrName a, const void *bytes, int64_t size)
{
    IrAttrValue *v = attr_of(op, a);
    *v = (IrAttrValue){.present = true};
    v->data.size = size;
    v->data.bytes = arena_copy(op->module->arena, bytes, (size_t)size);
}

/* ---- comparing and copying all of them --------------------------------- */

/* The bytes that compare as an attribute's value, *size of them: the items of
 * lists (interned names as pointers), everything else as stored in i. */
static const void *
value_bytes(IrAttrKind kind, const IrAttrValue *v, size_t *size)
{
    switch (kind) {
    case INTS:
        *size = (size_t)v->list.count * sizeof(int64_t);
        return v->list.items;
    case DIMS:
        *size = (size_t)v->list.count * sizeof(Dim);
        return v->list.items;
    case SYMBOLS:
        *size = (size_t)v->list.count * sizeof(const char *);
        return v->list.items;
    case DATA:
        *size = (size_t)v->data.size;
        return v->data.bytes;
    case SYMBOL:
    case STRING:
        *size = sizeof v->text;
        return &v->text;
    case INT:
    case BOOL:
    case DTYPE_:
    case ENUM:
        break;
    }
    *size = sizeof v->i;
    return &v->i;
}

static bool
dims_equal(const IrAttrValue *a, const IrAttrValue *b)
{
    const Dim *x = a->list.items, *y = b->list.items;
    if (a->list.count != b->list.count)
        return false;
    for (int i = 0; i < a->list.count; i++) {
        if (!ir_dim_equal(x[i], y[i]))
            return false;
    }
    return true;
}

static bool
values_equal(IrAttrKind kind, const IrAttrValue *a, const IrAttrValue *b)
{
    size_t na, nb;
    if (a->present != b->present)
        return false;
    if (!a->present)
        return true;
    if (kind == DIMS) /* a Dim has padding */
        return dims_equal(a, b);
    const void *x = value_bytes(kind, a, &na);
    const void *y = value_bytes(kind, b, &nb);
    return na == nb && (na == 0 || memcmp(x, y, na) == 0);
}

bool
ir_attrs_equal(const IrOp *a, const IrOp *b)
{
    const IrOpInfo *info = &ir_op_info[a->kind];
    if (a->kind != b->kind)
        return false;
    for (int i = 0; i < info->num_attrs; i++) {
        if (!values_equal(info->attrs[i].kind, &a->attrs[i], &b->attrs[i]))
            return false;
    }
    return true;
}

/* FNV-1a: attributes are short, except data, which differ early. */
static uint64_t
hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t
hash_text_of(uint64_t h, const char *text)
{
    return hash_bytes(h, text, strlen(text));
}

static uint64_t
hash_dims(uint64_t h, const IrAttrValue *v)
{
    const Dim *dims = v->list.items;
    for (int i = 0; i < v->list.count; i++) {
        int64_t words[] = {dims[i].c, dims[i].k, dims[i].sym};
        h = hash_bytes(h, words, sizeof words);
    }
    return h;
}

/* Texts are hashed by their content, so that a hash is the same in every run.
 */
static uint64_t
hash_value(uint64_t h, IrAttrKind kind, const IrAttrValue *v)
{
    const char *const *names = v->list.items;
    const void *bytes;
    size_t n;
    switch (kind) {
    case DIMS:
        return hash_dims(h, v);
    case SYMBOL:
    case STRING:
        return hash_text_of(h, v->text);
    case SYMBOLS:
        for (int i = 0; i < v->list.count; i++)
            h = hash_text_of(h, names[i]);
        return h;
    default:
        bytes = value_bytes(kind, v, &n);
        return hash_bytes(h, bytes, n);
    }
}

uint64_t
ir_attrs_hash(const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < info->num_attrs; i++) {
        const IrAttrValue *v = &op->attrs[i];
        h = hash_bytes(h, &v->present, sizeof v->present);
        if (v->present)
            h = hash_value(h, info->attrs[i].kind, v);
    }
    return h;
}

/* A copy of the value in arena a, perhaps of another module with the same
 * interned names. */
static IrAttrValue
copied(IrAttrKind kind, const IrAttrValue *v, Arena *a)
{
    IrAttrValue out = *v;
    size_t size;
    const void *bytes = value_bytes(kind, v, &size);
    if (!v->present)
        return out;
    if (kind == INTS || kind == DIMS || kind == SYMBOLS)
        out.list.items = arena_copy(a, bytes, size);
    else if (kind == DATA)
        out.data.bytes = arena_copy(a, bytes, size);
    return out;
}

void
ir_attrs_copy(IrOp *to, const IrOp *from)
{
    const IrOpInfo *info = &ir_op_info[from->kind];
    assert(to->kind == from->kind);
    for (int i = 0; i < info->num_attrs; i++) {
        to->attrs[i] =
            copied(info->attrs[i].kind, &from->attrs[i], to->module->arena);
    }
}

void
ir_attrs_copy_common(IrOp *to, const IrOp *from)
{
    const IrOpInfo *info = &ir_op_info[from->kind];
    for (int i = 0; i < info->num_attrs; i++) {
        const IrAttrInfo *attr = &info->attrs[i];
        int at = ir_attr_index(to->kind, attr->name);
        if (at < 0 || !from->attrs[i].present)
            continue;
        assert(ir_op_info[to->kind].attrs[at].kind == attr->kind);
        to->attrs[at] = copied(attr->kind, &from->attrs[i], to->module->arena);
    }
}

static const IrAttrName option_names[] = {A_implementation, A_root, A_packs,
                                          A_bytes_per_pack, A_timeout_ms};

/* op's value of an option; one that is absent where op has no such row. */
static const IrAttrValue *
option_of(const IrOp *op, IrAttrName a)
{
    static const IrAttrValue absent = {0};
    int at = ir_attr_index(op->kind, a);
    return at < 0 ? &absent : &op->attrs[at];
}

void
ir_attrs_copy_options(IrOp *to, const IrOp *from)
{
    for (size_t i = 0; i < sizeof option_names / sizeof *option_names; i++) {
        int at = ir_attr_index(to->kind, option_names[i]);
        if (at >= 0)
            to->attrs[at] = *option_of(from, option_names[i]);
    }
}

/* Options are words and numbers: their bytes are in the value itself. */
bool
ir_attrs_equal_options(const IrOp *a, const IrOp *b)
{
    for (size_t i = 0; i < sizeof option_names / sizeof *option_names; i++) {
        IrAttrName name = option_names[i];
        if (!values_equal(name == A_implementation ? ENUM : INT,
                          option_of(a, name), option_of(b, name)))
            return false;
    }
    return true;
}

bool
ir_op_names(const IrOp *op, Dim *size)
{
    IrIndexing names = ir_op_info[op->kind].index;
    if (names != INDEXES_part && names != INDEXES_row)
        return false;
    *size = op->operands[0]->type.dims[ir_int(op, A_axis)];
    return true;
}
