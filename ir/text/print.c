/*
 * print.c - functions and operations as text
 *
 * Values get their names before a function is printed, so that an operation
 * shown alone in a message has the names it has in a dump.  Nothing is written
 * into the IR: a dump may be made in the middle of a pass.
 */
#include "ir/text/print.h"

#include "ir/text/text.h"
#include "ir/type_text.h"
#include "ir/words.h"

void
ir_print_scalar(Str *out, Scalar s)
{
    if (dtype_is_float(s.dtype))
        str_add_float(out, s.f, s.dtype != DT_f64);
    else if (s.dtype == DT_bool)
        str_add(out, s.i ? "true" : "false");
    else
        str_addf(out, "%lld", (long long)s.i);
}

void
ir_print_hex(Str *out, const void *bytes, int64_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;
    str_add(out, "hex\"");
    for (int64_t i = 0; i < size; i++) {
        str_addc(out, digits[p[i] >> 4]);
        str_addc(out, digits[p[i] & 15]);
    }
    str_addc(out, '"');
}

void
ir_print_place(Str *out, IrPlace place)
{
    if (place.space == SPACE_NONE)
        return;
    bool number = place.space == SPACE_IN || place.space == SPACE_OUT;
    str_addf(out, " [%s%c%lld]", ir_space_words[place.space],
             number ? ' ' : '+', (long long)place.offset);
}

/* ---- places in sources ------------------------------------------------- */

int
ir_source_index(const IrModule *m, uint16_t file)
{
    if (!m->lists_sources)
        return file;
    for (int i = 0; i < m->sources.len; i++) {
        if (m->sources.data[i] == file)
            return i;
    }
    return -1;
}

void
ir_print_loc(Str *out, const IrModule *m, Loc loc)
{
    int source = ir_source_index(m, loc.file);
    if (loc.line == 0 || source < 0)
        return;
    str_add(out, " at ");
    if (source)
        str_addf(out, "%d/", source);
    str_addf(out, "%u:%u+%u", loc.line, loc.col, loc.len);
}

/* ---- names of values --------------------------------------------------- */

/* Names given so far: each is a key, its value counts what it was wanted. */
typedef struct Names {
    Arena *arena;
    Map *taken;
    PtrMap *of; /* value -> its name */
    int num_numbered;
} Names;

typedef struct Count {
    int next; /* the suffix to try next */
} Count;

static bool
is_value_name(const char *name)
{
    return name && ir_is_plain_name(name) && !(*name >= '0' && *name <= '9');
}

static Count *
take_name(Names *n, const char *name)
{
    Count *c = NEW(n->arena, Count);
    c->next = 1;
    map_set(n->taken, name, c);
    return c;
}

/* stem, or stem.1, stem.2, ...: the first that is free. */
static const char *
free_name(Names *n, const char *stem)
{
    Count *c = map_get(n->taken, stem);
    const char *name = stem;
    while (c && map_get(n->taken, name))
        name = arena_printf(n->arena, "%s.%d", stem, c->next++);
    take_name(n, name);
    return name;
}

static void
name_value(Names *n, const IrValue *v)
{
    const char *name;
    if (is_value_name(v->name))
        name = free_name(n, v->name);
    else
        name = arena_printf(n->arena, "%d", n->num_numbered++);
    ir_ptrmap_set(n->of, v, (void *)name);
}

static void
name_args(Names *n, const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        name_value(n, b->args.data[i]);
}

static void
name_block(Names *n, const IrBlock *b)
{
    name_args(n, b);
    for (const IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            name_value(n, op->results[i]);
        for (int r = 0; r < op->num_regions; r++)
            name_block(n, op->regions[r]);
    }
}

/* ---- operations -------------------------------------------------------- */

typedef struct Printer {
    Str *out;
    const IrModule *module;
    PtrMap names;
    int depth;   /* of indentation */
    bool closed; /* regions are shown as { ... } */
} Printer;

static void
print_value(const Printer *p, const IrValue *v)
{
    const char *name = ir_ptrmap_get(&p->names, v);
    str_addf(p->out, "%%%s", name ? name : "?");
}

static void
print_defined(const Printer *p, const IrValue *v)
{
    print_value(p, v);
    str_add(p->out, ": ");
    ir_print_type(p->out, p->module, &v->type);
    ir_print_place(p->out, v->place);
}

static void
print_ints(Str *out, const IrAttrValue *v)
{
    const int64_t *x = v->list.items;
    str_addc(out, '[');
    for (int i = 0; i < v->list.count; i++)
        str_addf(out, "%s%lld", i ? ", " : "", (long long)x[i]);
    str_addc(out, ']');
}

static void
print_symbols(Str *out, const IrAttrValue *v)
{
    const char *const *names = v->list.items;
    str_addc(out, '[');
    for (int i = 0; i < v->list.count; i++) {
        str_add(out, i ? ", " : "");
        ir_print_name(out, names[i]);
    }
    str_addc(out, ']');
}

static void
print_data(Str *out, const IrOp *op, const IrAttrValue *v)
{
    DType t = (DType)ir_int(op, A_dtype);
    int64_t count = v->data.size / (int64_t)dtype_info[t].bytes;
    if (count > IR_TEXT_ELEMENTS) {
        ir_print_hex(out, v->data.bytes, v->data.size);
        return;
    }
    str_addc(out, '[');
    for (int64_t i = 0; i < count; i++) {
        str_add(out, i ? ", " : "");
        ir_print_scalar(out, scalar_load(t, v->data.bytes, i));
    }
    str_addc(out, ']');
}

static void
print_attr(const Printer *p, const IrOp *op, const IrAttrInfo *info,
           const IrAttrValue *v)
{
    Str *out = p->out;
    switch (info->kind) {
    case INT:
        str_addf(out, "%lld", (long long)v->i);
        break;
    case BOOL:
        str_add(out, v->i ? "true" : "false");
        break;
    case INTS:
        print_ints(out, v);
        break;
    case DTYPE_:
        str_add(out, dtype_info[v->i].name);
        break;
    case ENUM:
        str_add(out, ir_words[info->list][v->i]);
        break;
    case SYMBOL:
        ir_print_name(out, v->text);
        break;
    case SYMBOLS:
        print_symbols(out, v);
        break;
    case STRING:
        str_add_quoted(out, v->text, strlen(v->text));
        break;
    case DIMS:
        ir_print_dims(out, p->module, v->list.count, v->list.items);
        break;
    case DATA:
        print_data(out, op, v);
        break;
    }
}

static void
print_attrs(const Printer *p, const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    const char *before = " {";
    for (int i = 0; i < info->num_attrs; i++) {
        if (!op->attrs[i].present)
            continue;
        str_addf(p->out, "%s%s=", before, info->attrs[i].text);
        print_attr(p, op, &info->attrs[i], &op->attrs[i]);
        before = " ";
    }
    if (before[1] == 0)
        str_addc(p->out, '}');
}

static void
print_args(const Printer *p, const IrBlock *b)
{
    str_addc(p->out, '(');
    for (int i = 0; i < b->args.len; i++) {
        str_add(p->out, i ? ", " : "");
        print_defined(p, b->args.data[i]);
    }
    str_addc(p->out, ')');
}

static void
print_indent(const Printer *p)
{
    for (int i = 0; i < p->depth; i++)
        str_add(p->out, "  ");
}

static void print_block(Printer *p, const IrBlock *b);

static void
print_regions(Printer *p, const IrOp *op)
{
    for (int r = 0; r < op->num_regions; r++) {
        str_addc(p->out, ' ');
        if (op->regions[r]->args.len) {
            print_args(p, op->regions[r]);
            str_addc(p->out, ' ');
        }
        if (p->closed)
            str_add(p->out, "{ ... }");
        else
            print_block(p, op->regions[r]);
    }
}

static void
print_reason(const Printer *p, const IrReason *r)
{
    str_addf(p->out, " because %s ", r->rule);
    str_add_quoted(p->out, r->cause, strlen(r->cause));
    ir_print_loc(p->out, p->module, r->loc);
}

static void
print_op(Printer *p, const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++) {
        str_add(p->out, i ? ", " : "");
        print_defined(p, op->results[i]);
    }
    str_addf(p->out, "%s%s", op->num_results ? " = " : "",
             ir_op_info[op->kind].name);
    for (int i = 0; i < op->num_operands; i++) {
        str_add(p->out, i ? ", " : " ");
        print_value(p, op->operands[i]);
    }
    print_attrs(p, op);
    print_regions(p, op);
    ir_print_loc(p->out, p->module, op->loc);
    if (op->reason)
        print_reason(p, op->reason);
}

static void
print_block(Printer *p, const IrBlock *b)
{
    str_add(p->out, "{\n");
    p->depth++;
    for (const IrOp *op = b->first; op; op = op->next) {
        print_indent(p);
        print_op(p, op);
        str_addc(p->out, '\n');
    }
    p->depth--;
    print_indent(p);
    str_addc(p->out, '}');
}

/* A printer that knows the names of fn's values, in a scratch arena. */
static Printer
printer_of(Str *out, const IrFunc *fn, Arena *scratch)
{
    Printer p = {.out = out, .module = fn->module};
    Names names = {.arena = scratch, .taken = map_new(scratch), .of = &p.names};
    p.names.arena = scratch;
    name_block(&names, fn->body);
    return p;
}

void
ir_print_func(Str *out, const IrFunc *fn)
{
    Arena *scratch = arena_new(NULL, "printing");
    Printer p = printer_of(out, fn, scratch);
    str_add(out, "func ");
    ir_print_name(out, fn->name);
    print_args(&p, fn->body);
    str_addf(out, " %s", ir_func_words[fn->kind]);
    if (fn->variant_of) {
        str_add(out, " variant ");
        ir_print_name(out, fn->variant_of);
    }
    if (fn->worker_of) {
        str_add(out, " worker ");
        ir_print_name(out, fn->worker_of);
    }
    if (fn->part_of) {
        str_add(out, " part ");
        ir_print_name(out, fn->part_of);
        if (fn->row_ids >= 0)
            str_addf(out, " rows %d%s", fn->row_ids,
                     fn->rows_only ? " only" : "");
    }
    if (fn->arena_bytes)
        str_addf(out, " bytes %lld", (long long)fn->arena_bytes);
    ir_print_loc(out, fn->module, fn->loc);
    str_addc(out, ' ');
    print_block(&p, fn->body);
    str_addc(out, '\n');
    arena_release(scratch);
}

void
ir_print_op(Str *out, const IrOp *op)
{
    Arena *scratch = arena_new(NULL, "printing");
    Printer p = {.out = out, .module = op->module};
    if (op->block)
        p = printer_of(out, op->block->func, scratch);
    p.closed = true;
    print_op(&p, op);
    arena_release(scratch);
}
