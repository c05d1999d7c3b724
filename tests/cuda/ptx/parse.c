/*
 * parse.c - the module, its kernels, registers and variables
 *
 * The grammar is that of the PTX ISA's chapter "Directives", as far as NVPTX
 * uses it; functions other than kernels, textures and debug sections are
 * errors.
 */
#include "tests/cuda/ptx/parse.h"

#include <stdlib.h>
#include <string.h>

/* Of all parameters of a kernel; USUAL before PTX 8.1. */
enum { USUAL_PARAM_BYTES = 4352, MAX_PARAM_BYTES = 32764, LARGE_SINCE = 81 };

/* ---- variables ---------------------------------------------------------- */

/* .align 16 .v4 .u32 name[8], of which name, number and alignment are here. */
typedef struct Shape {
    const char *name;
    Type type;
    uint32_t align;
    uint64_t bytes;
    bool unsized; /* name[] */
} Shape;

static void
parse_align(Parser *p, Shape *s)
{
    if (!ptx_take_name(&p->x, ".align"))
        return;
    int line = p->x.token.line;
    s->align = ptx_parse_number(p, "an alignment");
    if (s->align == 0 || s->align > 256 || (s->align & (s->align - 1)))
        ptx_fail(&p->x, line, "an alignment is a power of two");
}

static Type
parse_type_word(Parser *p)
{
    int line = p->x.token.line;
    const char *name = ptx_expect_any_name(&p->x, "a type");
    Type t = name[0] == '.' ? ptx_type_of(name + 1) : NUM_TYPES;
    if (t == NUM_TYPES)
        ptx_fail(&p->x, line, "unknown type %s", name);
    return t == NUM_TYPES ? TYPE_b32 : t;
}

static Shape
parse_shape(Parser *p)
{
    Shape s = {0};
    parse_align(p, &s);
    int line = p->x.token.line;
    s.type = parse_type_word(p);
    if (s.type == TYPE_pred)
        ptx_fail(&p->x, line, "predicates are not in memory");
    s.name = ptx_expect_any_name(&p->x, "a name");
    s.bytes = ptx_types[s.type].bytes;
    s.align = s.align ? s.align : ptx_types[s.type].bytes;
    if (ptx_take(&p->x, '[')) {
        s.unsized = ptx_is(&p->x, ']');
        s.bytes *= s.unsized ? 0 : ptx_parse_number(p, "a length");
        ptx_expect(&p->x, ']');
    }
    if (s.bytes > INT32_MAX)
        ptx_fail(&p->x, line, "%s is too large", s.name);
    return s;
}

static Variable *
add_variable(Parser *p, const Shape *s, Space space, uint64_t address)
{
    Variable v = {.name = s->name, .space = space, .address = address};
    v.bytes = s->bytes;
    VEC_PUSH(p->arena, p->variables, v);
    return &VEC_LAST(p->variables);
}

/* = {1, 2, 3}, or = 1; what is not listed is 0. */
static void
parse_initializer(Parser *p, const Shape *s, uint8_t *data)
{
    uint32_t size = ptx_types[s->type].bytes;
    bool braces = ptx_take(&p->x, '{');
    for (uint64_t at = 0; !p->x.failed; at += size) {
        Token t = p->x.token;
        uint64_t bits = t.bits;
        if (t.kind == TOKEN_F32 || t.kind == TOKEN_F64)
            ptx_next(&p->x);
        else
            bits = (uint64_t)ptx_expect_int(&p->x, "a value");
        if (at + size > s->bytes) {
            ptx_fail(&p->x, t.line, "too many values for %s", s->name);
            return;
        }
        memcpy(data + at, &bits, size);
        if (!braces || !ptx_take(&p->x, ','))
            break;
    }
    if (braces)
        ptx_expect(&p->x, '}');
}

static void
parse_global(Parser *p)
{
    PtxModule *m = p->module;
    Shape s = parse_shape(p);
    if (s.unsized)
        ptx_fail(&p->x, p->x.token.line, "%s has no length", s.name);
    if (p->x.failed)
        return;
    uint64_t address = ptx_aligned(m->globals_end, s.align);
    m->globals_end = address + s.bytes;
    Variable *v = add_variable(p, &s, SPACE_GLOBAL, address);
    v->data = arena_alloc(m->arena, s.bytes);
    if (ptx_take(&p->x, '='))
        parse_initializer(p, &s, v->data);
    ptx_expect(&p->x, ';');
    VEC_PUSH(m->arena, m->variables, *v);
}

static void
parse_shared(Parser *p)
{
    Shape s = parse_shape(p);
    if (s.unsized)
        ptx_fail(&p->x, p->x.token.line, "%s has no length", s.name);
    uint32_t address = ptx_place_shared(p, s.bytes, s.align);
    add_variable(p, &s, SPACE_SHARED, address);
    ptx_expect(&p->x, ';');
}

/* Of the module: static arrays, and .extern .shared name[], which begins behind
 * all static ones of a kernel. */
static void
parse_module_shared(Parser *p, bool is_extern)
{
    Shape s = parse_shape(p);
    if (s.unsized != is_extern)
        ptx_fail(&p->x, p->x.token.line, "%s: .extern has no length", s.name);
    Variable *v = add_variable(p, &s, SPACE_SHARED, 0);
    v->is_dynamic = is_extern;
    v->is_of_module = !is_extern;
    v->align = s.align;
    ptx_expect(&p->x, ';');
}

static void
parse_local(Parser *p)
{
    PtxKernelInfo *info = &p->kernel->info;
    Shape s = parse_shape(p);
    uint64_t address = ptx_aligned(info->local, s.align);
    if (s.unsized || address + s.bytes > (512u << 10))
        ptx_fail(&p->x, p->x.token.line, "over 512 KB of local memory");
    if (p->x.failed)
        return;
    info->local = (uint32_t)(address + s.bytes);
    add_variable(p, &s, SPACE_LOCAL, address);
    ptx_expect(&p->x, ';');
}

/* ---- registers ---------------------------------------------------------- */

static void
add_registers(Parser *p, Declared *d)
{
    PtxKernel *k = p->kernel;
    uint32_t bytes = ptx_types[d->type].bytes;
    if (d->count > 1 << 16 || k->row_bytes > 1u << 28) {
        ptx_fail(&p->x, p->x.token.line, "too many registers");
        return;
    }
    d->at = k->row_bytes;
    d->number = k->num_registers;
    for (uint32_t i = 0; i < d->count; i++)
        ptx_new_row(k, bytes);
    k->num_registers += d->count;
    k->info.registers += d->count * (bytes == 8 ? 2 : d->type != TYPE_pred);
    VEC_PUSH(p->arena, p->registers, *d);
}

static void
parse_registers(Parser *p)
{
    Type type = parse_type_word(p);
    if (ptx_types[type].bytes == 1)
        ptx_fail(&p->x, p->x.token.line, "registers of 8 bits");
    do {
        Declared d = {.type = type, .count = 1};
        d.name = ptx_expect_any_name(&p->x, "a register's name");
        d.is_range = ptx_take(&p->x, '<');
        if (d.is_range) {
            d.count = ptx_parse_number(p, "a number of registers");
            ptx_expect(&p->x, '>');
        }
        if (!p->x.failed)
            add_registers(p, &d);
    } while (ptx_take(&p->x, ','));
    ptx_expect(&p->x, ';');
}

/* ---- bodies ------------------------------------------------------------- */

static void
add_label(Parser *p, const char *name, int line)
{
    if (map_get(p->label_set, name))
        ptx_fail(&p->x, line, "the label %s is there twice", name);
    Label *label = NEW(p->arena, Label);
    *label = (Label){name, p->kernel->code.len};
    map_set(p->label_set, name, label);
    VEC_PUSH(p->arena, p->labels, *label);
}

/* name: */
static bool
take_label(Parser *p)
{
    Lexer back = p->x;
    Token name = p->x.token;
    if (name.kind != TOKEN_NAME)
        return false;
    ptx_next(&p->x);
    if (!ptx_take(&p->x, ':')) {
        if (!p->x.failed)
            p->x = back;
        return false;
    }
    add_label(p, name.name, name.line);
    return true;
}

static void parse_body(Parser *p);

static void
parse_statement(Parser *p)
{
    if (ptx_is(&p->x, '{'))
        parse_body(p);
    else if (ptx_take_name(&p->x, ".reg"))
        parse_registers(p);
    else if (ptx_take_name(&p->x, ".shared"))
        parse_shared(p);
    else if (ptx_take_name(&p->x, ".local"))
        parse_local(p);
    else if (!take_label(p) && !p->x.failed)
        ptx_parse_instruction(p);
}

enum { MAX_DEPTH = 16 };

/* What a pair of braces declares is known within. */
static void
parse_body(Parser *p)
{
    int registers = p->registers.len, variables = p->variables.len;
    ptx_expect(&p->x, '{');
    if (++p->depth > MAX_DEPTH)
        ptx_fail(&p->x, p->x.token.line, "braces %d deep", MAX_DEPTH);
    while (!p->x.failed && !ptx_is(&p->x, '}')) {
        if (p->x.token.kind == TOKEN_END)
            ptx_fail(&p->x, p->x.token.line, "the text ends in a kernel");
        else
            parse_statement(p);
    }
    ptx_expect(&p->x, '}');
    p->depth--;
    p->registers.len = registers;
    p->variables.len = variables;
}

static void
resolve_labels(Parser *p)
{
    PtxKernel *k = p->kernel;
    k->is_leader = NEW_ARRAY(p->module->arena, bool, (size_t)k->code.len + 1);
    for (int i = 0; i < p->labels.len; i++)
        k->is_leader[p->labels.data[i].at] = true;
    for (int i = 0; i < p->fixups.len && !p->x.failed; i++) {
        const Fixup *f = &p->fixups.data[i];
        const Label *label = map_get(p->label_set, f->label);
        if (!label)
            ptx_fail(&p->x, f->line, "no label %s", f->label);
        else
            k->code.data[f->insn].target = label->at;
    }
}

/* ---- kernels ------------------------------------------------------------ */

static void
parse_param(Parser *p)
{
    PtxKernelInfo *info = &p->kernel->info;
    int line = p->x.token.line;
    if (!ptx_take_name(&p->x, ".param"))
        ptx_fail(&p->x, line, "expected a parameter");
    Shape s = parse_shape(p);
    uint64_t offset = ptx_aligned(info->param_bytes, s.align);
    int most =
        p->module->version < LARGE_SINCE ? USUAL_PARAM_BYTES : MAX_PARAM_BYTES;
    if (s.unsized || offset + s.bytes > (uint64_t)most)
        ptx_fail(&p->x, line, "over %d bytes of parameters", most);
    if (p->x.failed)
        return;
    PtxParam param = {s.name, (uint32_t)offset, (uint32_t)s.bytes, s.align};
    VEC_PUSH(p->module->arena, p->params, param);
    info->param_bytes = (uint32_t)(offset + s.bytes);
    add_variable(p, &s, SPACE_PARAM, offset);
}

static void
parse_params(Parser *p)
{
    if (!ptx_take(&p->x, '('))
        return;
    if (ptx_take(&p->x, ')'))
        return;
    do
        parse_param(p);
    while (ptx_take(&p->x, ','));
    ptx_expect(&p->x, ')');
}

static uint32_t
parse_threads(Parser *p, uint32_t *sizes)
{
    uint64_t all = 1;
    int line = p->x.token.line;
    for (int i = 0; i < 3; i++) {
        sizes[i] =
            i && !ptx_take(&p->x, ',') ? 1 : ptx_parse_number(p, "a size");
        all *= sizes[i] <= 1024 ? sizes[i] : 0;
    }
    if (all == 0 || all > 1024)
        ptx_fail(&p->x, line, "a block has 1 to 1024 threads");
    return (uint32_t)all;
}

static void
parse_tuning(Parser *p)
{
    PtxKernelInfo *info = &p->kernel->info;
    uint32_t sizes[3];
    while (!p->x.failed && !ptx_is(&p->x, '{')) {
        if (ptx_take_name(&p->x, ".reqntid"))
            parse_threads(p, info->reqntid);
        else if (ptx_take_name(&p->x, ".maxntid"))
            info->maxntid = parse_threads(p, sizes);
        else if (ptx_take_name(&p->x, ".minnctapersm"))
            info->minnctapersm = ptx_parse_number(p, "a number of blocks");
        else if (ptx_take_name(&p->x, ".maxnreg"))
            ptx_parse_number(p, "a number of registers");
        else
            ptx_fail(&p->x, p->x.token.line, "unknown directive of a kernel");
    }
}

static PtxKernel *
new_kernel(Parser *p)
{
    PtxKernel *k = NEW(p->module->arena, PtxKernel);
    *k = (PtxKernel){.module = p->module, .num_registers = 1};
    k->info.line = p->x.token.line;
    k->dynamic_align = 16;
    ptx_new_row(k, 4); /* so that no row begins at 0 */
    for (int s = 0; s < NUM_SPACES; s++)
        k->grain[s] = 16;
    p->kernel = k;
    p->registers.len = p->labels.len = p->fixups.len = p->params.len = 0;
    p->params.data = NULL;
    p->params.cap = 0;
    p->label_set = map_new(p->arena);
    return k;
}

static void
finish_kernel(Parser *p)
{
    PtxKernel *k = p->kernel;
    PtxModule *m = p->module;
    resolve_labels(p);
    k->info.params = p->params.data;
    k->info.num_params = p->params.len;
    k->info.num_instructions = k->code.len;
    k->dynamic_at =
        (uint32_t)ptx_aligned(k->info.static_shared, k->dynamic_align);
    if (p->x.failed)
        return;
    map_set(m->by_name, k->info.name, k);
    VEC_PUSH(m->arena, m->kernels, k);
}

static void
parse_entry(Parser *p)
{
    int variables = p->variables.len;
    PtxKernel *k = new_kernel(p);
    k->info.name = ptx_expect_any_name(&p->x, "a kernel's name");
    if (map_get(p->module->by_name, k->info.name))
        ptx_fail(&p->x, k->info.line, "the kernel %s is there twice",
                 k->info.name);
    parse_params(p);
    parse_tuning(p);
    parse_body(p);
    p->variables.len = variables;
    finish_kernel(p);
    p->kernel = NULL;
}

/* ---- modules ------------------------------------------------------------ */

static void
parse_version(Parser *p)
{
    /* 7.0 has the tokens 7 and .0 */
    int major = (int)ptx_parse_number(p, "a version");
    const char *minor = ptx_expect_any_name(&p->x, "a version");
    p->module->version = 10 * major + (minor[0] ? atoi(minor + 1) : 0);
}

static void
parse_target(Parser *p)
{
    int line = p->x.token.line;
    const char *name = ptx_expect_any_name(&p->x, "a target");
    int number = strncmp(name, "sm_", 3) ? 0 : atoi(name + 3);
    if (number < 70)
        ptx_fail(&p->x, line, "the target %s: sm_70 or newer is executed",
                 name);
    p->module->target = number;
}

static void
parse_directive(Parser *p)
{
    int line = p->x.token.line;
    const char *name = ptx_expect_any_name(&p->x, "a directive");
    bool is_extern = !strcmp(name, ".extern");
    if (is_extern || !strcmp(name, ".visible") || !strcmp(name, ".weak"))
        name = ptx_expect_any_name(&p->x, "a directive");
    if (!strcmp(name, ".shared"))
        parse_module_shared(p, is_extern);
    else if (is_extern)
        ptx_fail(&p->x, line, "%s of another module", name);
    else if (!strcmp(name, ".version"))
        parse_version(p);
    else if (!strcmp(name, ".target"))
        parse_target(p);
    else if (!strcmp(name, ".address_size"))
        p->address_size = (int)ptx_parse_number(p, "a size");
    else if (!strcmp(name, ".global"))
        parse_global(p);
    else if (!strcmp(name, ".entry"))
        parse_entry(p);
    else
        ptx_fail(&p->x, line, "unknown directive %s", name);
}

static void
parse_module(Parser *p)
{
    while (!p->x.failed && p->x.token.kind != TOKEN_END)
        parse_directive(p);
    if (!p->x.failed && (!p->module->target || !p->module->version))
        ptx_fail(&p->x, 1, "no .version and .target");
    else if (!p->x.failed && p->address_size != 64)
        ptx_fail(&p->x, 1, "addresses have 64 bits: .address_size 64");
}

static Map *
map_of_arith(Arena *a)
{
    Map *m = map_new(a);
    for (const ArithRow *r = ptx_arith; r->name; r++)
        map_set(m, r->name, (void *)(uintptr_t)r);
    return m;
}

PtxModule *
ptx_module_open(const char *text, size_t len, uint64_t globals, PtxError *error)
{
    Arena *a = arena_new(NULL, "PTX");
    PtxModule *m = NEW(a, PtxModule);
    *m = (PtxModule){.arena = a, .by_name = map_new(a)};
    m->globals = m->globals_end = globals ? globals : DEFAULT_GLOBALS;
    Arena *scratch = arena_new(a, "parser");
    Parser p = {.arena = scratch, .module = m};
    p.arith = map_of_arith(scratch);
    ptx_lexer_open(&p.x, text, len, intern_new(a), error);
    parse_module(&p);
    arena_release(scratch);
    if (p.x.failed) {
        arena_release(a);
        return NULL;
    }
    return m;
}

void
ptx_module_close(PtxModule *m)
{
    if (m)
        arena_release(m->arena);
}

/* ---- what a module has -------------------------------------------------- */

int
ptx_module_target(const PtxModule *m)
{
    return m->target;
}

int
ptx_module_version(const PtxModule *m)
{
    return m->version;
}

int
ptx_module_num_kernels(const PtxModule *m)
{
    return m->kernels.len;
}

const PtxKernel *
ptx_module_kernel(const PtxModule *m, int i)
{
    return m->kernels.data[i];
}

const PtxKernel *
ptx_module_find(const PtxModule *m, const char *name)
{
    return map_get(m->by_name, name);
}

uint64_t
ptx_module_global(const PtxModule *m, const char *name, size_t *bytes,
                  void **host)
{
    for (int i = 0; i < m->variables.len; i++) {
        const Variable *v = &m->variables.data[i];
        if (strcmp(v->name, name))
            continue;
        if (bytes)
            *bytes = v->bytes;
        if (host)
            *host = v->data;
        return v->address;
    }
    return 0;
}

const PtxKernelInfo *
ptx_kernel_info(const PtxKernel *k)
{
    return &k->info;
}
