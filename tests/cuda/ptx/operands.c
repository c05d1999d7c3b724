/*
 * operands.c - registers, constants and addresses
 *
 * What an operand may be is in the PTX ISA's chapter "Instruction Operands".
 * Types are checked as ptxas checks them, so that a text which the emulator
 * takes is one that assembles.
 */
#include "tests/cuda/ptx/parse.h"

#include <string.h>

const TypeInfo ptx_types[] = {
#define TYPE(name, bytes, class) {#name, bytes, CLASS_##class},
#include "tests/cuda/ptx/types.def"
#undef TYPE
};

Type
ptx_type_of(const char *name)
{
    for (int t = 0; t < NUM_TYPES; t++)
        if (!strcmp(ptx_types[t].name, name))
            return (Type)t;
    return NUM_TYPES;
}

uint32_t
ptx_new_row(PtxKernel *k, uint32_t bytes)
{
    uint32_t at = k->row_bytes;
    k->row_bytes += (bytes == 8 ? 8 : 4) * NUM_LANES;
    return at;
}

Operand
ptx_constant(Parser *p, uint64_t bits, uint32_t bytes)
{
    PtxKernel *k = p->kernel;
    bool wide = bytes == 8;
    if (!wide)
        bits &= bytes == 2 ? 0xffff : 0xffffffff;
    uint8_t size = (uint8_t)bytes;
    for (int i = 0; i < k->constants.len; i++) {
        const Constant *c = &k->constants.data[i];
        if (c->value == bits && c->bytes == size)
            return (Operand){c->at, 0};
    }
    Constant c = {bits, ptx_new_row(k, bytes), size};
    VEC_PUSH(p->module->arena, k->constants, c);
    return (Operand){c.at, 0};
}

/* ---- registers ---------------------------------------------------------- */

/* The number that a name of the range has, or -1. */
static int64_t
number_in_range(const Declared *d, const char *name)
{
    size_t len = strlen(d->name);
    if (strncmp(name, d->name, len) || !name[len])
        return -1;
    int64_t n = 0;
    for (const char *c = name + len; *c; c++) {
        if (*c < '0' || *c > '9' || n > UINT32_MAX)
            return -1;
        n = 10 * n + (*c - '0');
    }
    return n < d->count ? n : -1;
}

static bool
find_register(const Parser *p, const char *name, Operand *out, Type *type)
{
    for (int i = p->registers.len - 1; i >= 0; i--) {
        const Declared *d = &p->registers.data[i];
        int64_t n = d->is_range ? number_in_range(d, name)
                                : -(int64_t)(strcmp(d->name, name) != 0);
        if (n < 0)
            continue;
        uint32_t row = (ptx_types[d->type].bytes == 8 ? 8 : 4) * NUM_LANES;
        *out = (Operand){d->at + (uint32_t)n * row, d->number + (uint32_t)n};
        *type = d->type;
        return true;
    }
    return false;
}

/* Whether a register of one type may stand where an instruction has another. */
static bool
type_fits(Type reg, Type want)
{
    TypeClass r = ptx_types[reg].class, w = ptx_types[want].class;
    if (ptx_types[reg].bytes != ptx_types[want].bytes)
        return false;
    if (r == CLASS_PRED || w == CLASS_PRED)
        return r == w;
    return r == CLASS_BITS || w == CLASS_BITS ||
           (r == CLASS_FLOAT) == (w == CLASS_FLOAT);
}

Operand
ptx_parse_register(Parser *p, Type *type)
{
    Operand o = {0, 0};
    int line = p->x.token.line;
    const char *name = ptx_expect_any_name(&p->x, "a register");
    *type = TYPE_b32;
    if (!p->x.failed && !find_register(p, name, &o, type))
        ptx_fail(&p->x, line, "%s is not a register", name);
    return o;
}

Operand
ptx_parse_dst(Parser *p, Type type)
{
    Type got;
    int line = p->x.token.line;
    Operand o = ptx_parse_register(p, &got);
    if (!p->x.failed && !type_fits(got, type))
        ptx_fail(&p->x, line, "a register of type .%s for a result of .%s",
                 ptx_types[got].name, ptx_types[type].name);
    return o;
}

static const char *const special_names[] = {
#define SPECIAL(id, name, value) name,
#include "tests/cuda/ptx/specials.def"
#undef SPECIAL
};

static bool
find_special(Parser *p, const char *name, Operand *out)
{
    for (int i = 0; i < NUM_SPECIALS; i++) {
        if (strcmp(special_names[i], name))
            continue;
        uint32_t *at = &p->kernel->special_at[i];
        *at = *at ? *at : ptx_new_row(p->kernel, 4);
        *out = (Operand){*at, 0};
        return true;
    }
    return false;
}

Variable *
ptx_find_variable(const Parser *p, const char *name)
{
    for (int i = p->variables.len - 1; i >= 0; i--)
        if (!strcmp(p->variables.data[i].name, name))
            return &p->variables.data[i];
    return NULL;
}

uint32_t
ptx_place_shared(Parser *p, uint64_t bytes, uint32_t align)
{
    enum { MOST = 227 << 10 };
    PtxKernelInfo *info = &p->kernel->info;
    uint64_t address = ptx_aligned(info->static_shared, align ? align : 1);
    if (address + bytes > MOST) {
        ptx_fail(&p->x, p->x.token.line, "over %d bytes of shared memory",
                 MOST);
        return 0;
    }
    info->static_shared = (uint32_t)(address + bytes);
    return (uint32_t)address;
}

/* The row that has a variable's address. */
static Operand
address_of(Parser *p, Variable *v, uint32_t bytes)
{
    PtxKernel *k = p->kernel;
    if (v->is_of_module && v->placed_in != k) {
        v->address = ptx_place_shared(p, v->bytes, v->align);
        v->placed_in = k;
    }
    if (!v->is_dynamic)
        return ptx_constant(p, v->address, bytes);
    uint32_t *row = &k->dynamic_row[bytes == 8];
    *row = *row ? *row : ptx_new_row(k, bytes);
    k->info.uses_dynamic_shared = true;
    if (v->align > k->dynamic_align)
        k->dynamic_align = v->align;
    return (Operand){*row, 0};
}

/* ---- sources ------------------------------------------------------------ */

static Operand
named_source(Parser *p, Type type)
{
    Operand o = {0, 0};
    Type got = TYPE_u32;
    int line = p->x.token.line;
    const char *name = ptx_expect_any_name(&p->x, "an operand");
    Variable *v = ptx_find_variable(p, name);
    if (find_register(p, name, &o, &got) || find_special(p, name, &o)) {
        if (!type_fits(got, type))
            ptx_fail(&p->x, line, "%s has type .%s, not .%s", name,
                     ptx_types[got].name, ptx_types[type].name);
    } else if (v && ptx_types[type].class != CLASS_FLOAT &&
               ptx_types[type].class != CLASS_PRED) {
        if (ptx_types[type].bytes < (v->address > UINT32_MAX ? 8 : 4))
            ptx_fail(&p->x, line, "the address of %s has more bits", name);
        o = address_of(p, v, ptx_types[type].bytes);
    } else {
        ptx_fail(&p->x, line, "%s is not declared", name);
    }
    return o;
}

/* Whether the value of an integer constant fits a type, signed or not. */
static bool
int_fits(uint64_t bits, bool negative, uint32_t bytes)
{
    if (bytes == 8)
        return true;
    uint64_t most = (UINT64_C(1) << (8 * bytes)) - 1;
    return negative ? 0 - bits <= most / 2 + 1 : bits <= most;
}

static Operand
int_source(Parser *p, Type type)
{
    const TypeInfo *t = &ptx_types[type];
    int line = p->x.token.line;
    bool negative = ptx_is(&p->x, '-');
    uint64_t bits = (uint64_t)ptx_expect_int(&p->x, "an operand");
    if (p->x.failed)
        return (Operand){0, 0};
    if (t->class == CLASS_PRED)
        return ptx_constant(p, bits != 0, t->bytes);
    if (t->class == CLASS_FLOAT)
        ptx_fail(&p->x, line, "an integer for an operand of .%s", t->name);
    else if (!int_fits(bits, negative, t->bytes))
        ptx_fail(&p->x, line, "the constant has over %d bits", 8 * t->bytes);
    return ptx_constant(p, bits, t->bytes);
}

static Operand
float_source(Parser *p, Type type)
{
    const TypeInfo *t = &ptx_types[type];
    Token token = p->x.token;
    uint32_t bytes = token.kind == TOKEN_F32 ? 4 : 8;
    if (t->bytes != bytes ||
        (t->class != CLASS_FLOAT && t->class != CLASS_BITS))
        ptx_fail(&p->x, token.line, "a constant of .f%u for an operand of .%s",
                 8 * bytes, t->name);
    ptx_next(&p->x);
    return ptx_constant(p, token.bits, bytes);
}

Operand
ptx_parse_src(Parser *p, Type type)
{
    switch (p->x.token.kind) {
    case TOKEN_NAME:
        return named_source(p, type);
    case TOKEN_F32:
    case TOKEN_F64:
        return float_source(p, type);
    case TOKEN_INT:
    case TOKEN_MARK:
    case TOKEN_END:
        break;
    }
    return int_source(p, type);
}

uint32_t
ptx_parse_number(Parser *p, const char *what)
{
    int line = p->x.token.line;
    int64_t n = ptx_expect_int(&p->x, what);
    if (n < 0 || n > UINT32_MAX)
        ptx_fail(&p->x, line, "%s is out of range", what);
    return (uint32_t)n;
}

/* ---- addresses ---------------------------------------------------------- */

/* Variables of other spaces are elsewhere: their addresses mean nothing here.
 */
static Operand
variable_address(Parser *p, const char *name, Space space, int line)
{
    Variable *v = ptx_find_variable(p, name);
    if (!v)
        ptx_fail(&p->x, line, "%s is not declared", name);
    else if (v->space != space)
        ptx_fail(&p->x, line, "%s is in another state space", name);
    return v ? address_of(p, v, 8) : (Operand){0, 0};
}

Operand
ptx_parse_address(Parser *p, Space space, int64_t *offset, bool *narrow)
{
    Operand o = {0, 0};
    Type type = TYPE_b64;
    int line = p->x.token.line;
    ptx_expect(&p->x, '[');
    const char *name = ptx_expect_any_name(&p->x, "an address");
    if (p->x.failed)
        return o;
    if (!find_register(p, name, &o, &type))
        o = variable_address(p, name, space, line);
    else if (ptx_types[type].class == CLASS_FLOAT ||
             ptx_types[type].class == CLASS_PRED || ptx_types[type].bytes < 4)
        ptx_fail(&p->x, line, "%s of type .%s is not an address", name,
                 ptx_types[type].name);
    *narrow = ptx_types[type].bytes == 4;
    *offset = 0;
    if (ptx_take(&p->x, '+'))
        *offset = ptx_expect_int(&p->x, "an offset");
    else if (ptx_is(&p->x, '-'))
        *offset = ptx_expect_int(&p->x, "an offset");
    ptx_expect(&p->x, ']');
    return o;
}
