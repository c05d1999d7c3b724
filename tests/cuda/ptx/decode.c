/*
 * decode.c - instructions
 *
 * An opcode's name is split at its dots.  The first word chooses the family,
 * whose function must use up all the others: a modifier that nothing asked for
 * makes the instruction unknown.  What is computed of registers alone is found
 * by its whole name, in instructions.def.
 */
#include "tests/cuda/ptx/parse.h"

#include <string.h>
#include "tests/cuda/ptx/machine.h"

enum { MAX_WORDS = 12 };

typedef struct Opcode {
    const char *name;
    int line;
    const char *words[MAX_WORDS]; /* without dots */
    int num, used;
} Opcode;

typedef void Decode(Parser *p, Opcode *o, Insn *i);

/* ---- words of an opcode ------------------------------------------------- */

static bool
split_name(Parser *p, Opcode *o)
{
    char *name = arena_strdup(p->arena, o->name);
    for (char *word = name; word; o->num++) {
        if (o->num == MAX_WORDS)
            return false;
        o->words[o->num] = word;
        word = strchr(word, '.');
        if (word)
            *word++ = 0;
    }
    o->used = 1;
    return true;
}

/* Uses up the next word if it is this one. */
static bool
take_word(Opcode *o, const char *word)
{
    bool is = o->used < o->num && !strcmp(o->words[o->used], word);
    o->used += is;
    return is;
}

/* The position of the next word in a list that ends with NULL, or -1. */
static int
take_one_of(Opcode *o, const char *const *list)
{
    for (int n = 0; list[n]; n++)
        if (take_word(o, list[n]))
            return n;
    return -1;
}

static Type
take_type(Opcode *o)
{
    Type t = o->used < o->num ? ptx_type_of(o->words[o->used]) : NUM_TYPES;
    o->used += t != NUM_TYPES;
    return t;
}

static void
unknown(Parser *p, const Opcode *o)
{
    ptx_fail(&p->x, o->line, "unknown instruction or modifier: %s", o->name);
}

/* Whether all words were used and what they had to say was known. */
static bool
all_used(Parser *p, const Opcode *o, bool known)
{
    if (!known || o->used != o->num)
        unknown(p, o);
    return !p->x.failed;
}

/* ---- operands of an instruction ----------------------------------------- */

static void
add_src(Insn *i, Operand o)
{
    i->src[i->num_src++] = o;
}

static void
add_dst(Insn *i, Operand o)
{
    i->dst[i->num_dst++] = o;
}

static void
parse_dst(Parser *p, Insn *i, Type t)
{
    Operand o = ptx_parse_dst(p, t);
    add_dst(i, o);
}

static void
parse_next_src(Parser *p, Insn *i, Type t)
{
    ptx_expect(&p->x, ',');
    Operand o = ptx_parse_src(p, t);
    add_src(i, o);
}

/* ---- arithmetic --------------------------------------------------------- */

static void
decode_arith(Parser *p, const ArithRow *row, Insn *i)
{
    i->execute = row->execute;
    parse_dst(p, i, row->dst);
    for (int s = 0; s < row->num_src; s++)
        parse_next_src(p, i, row->src[s]);
}

/* mov.b64 d, {a, b}: the first element is the lowest. */
static void
decode_pack(Parser *p, Insn *i, Type whole, Type part)
{
    int num = ptx_types[whole].bytes / ptx_types[part].bytes;
    i->execute = ptx_pack;
    i->from_width = ptx_types[part].bytes;
    i->to_width = ptx_types[whole].bytes;
    parse_dst(p, i, whole);
    ptx_expect(&p->x, ',');
    ptx_expect(&p->x, '{');
    for (int n = 0; n < num; n++) {
        if (n)
            ptx_expect(&p->x, ',');
        Operand o = ptx_parse_src(p, part);
        add_src(i, o);
    }
    ptx_expect(&p->x, '}');
}

static void
decode_unpack(Parser *p, Insn *i, Type whole, Type part)
{
    int num = ptx_types[whole].bytes / ptx_types[part].bytes;
    i->execute = ptx_unpack;
    i->from_width = ptx_types[whole].bytes;
    i->to_width = ptx_types[part].bytes;
    ptx_expect(&p->x, '{');
    for (int n = 0; n < num; n++) {
        if (n)
            ptx_expect(&p->x, ',');
        Operand o = ptx_parse_dst(p, part);
        add_dst(i, o);
    }
    ptx_expect(&p->x, '}');
    parse_next_src(p, i, whole);
}

/* The elements that the braces of a mov hold, by their number. */
static Type
part_of(Parser *p, Type whole)
{
    Lexer back = p->x;
    int num = 1;
    while (!ptx_is(&p->x, '{') && !ptx_is(&p->x, ';') && !p->x.failed &&
           p->x.token.kind != TOKEN_END)
        ptx_next(&p->x);
    for (; !ptx_is(&p->x, '}') && p->x.token.kind != TOKEN_END; ptx_next(&p->x))
        num += ptx_is(&p->x, ',');
    if (p->x.failed)
        return NUM_TYPES;
    p->x = back;
    int bytes = ptx_types[whole].bytes;
    return num == 2 && bytes == 8   ? TYPE_b32
           : num == 2 && bytes == 4 ? TYPE_b16
           : num == 4 && bytes == 8 ? TYPE_b16
                                    : NUM_TYPES;
}

/* Whether a brace comes before the instruction's end. */
static bool
has_brace(Parser *p)
{
    Lexer back = p->x;
    while (!ptx_is(&p->x, '{') && !ptx_is(&p->x, ';') &&
           p->x.token.kind != TOKEN_END)
        ptx_next(&p->x);
    bool has = ptx_is(&p->x, '{');
    if (!p->x.failed)
        p->x = back;
    return has;
}

static void
decode_mov(Parser *p, Opcode *o, Insn *i)
{
    const ArithRow *row = map_get(p->arith, o->name);
    Type whole = take_type(o);
    bool packs = has_brace(p);
    if (!all_used(p, o, row != NULL))
        return;
    if (!packs) {
        decode_arith(p, row, i);
        return;
    }
    Type part = part_of(p, whole);
    if (ptx_types[whole].class != CLASS_BITS || part == NUM_TYPES)
        unknown(p, o);
    else if (ptx_is(&p->x, '{'))
        decode_unpack(p, i, whole, part);
    else
        decode_pack(p, i, whole, part);
}

/* ---- cvt ------------------------------------------------- */

static const char *const roundings[] = {"rn", "rni", "rzi", "rmi", "rpi", NULL};

static bool
is_narrow_float(Type t)
{
    return t == TYPE_f16 || t == TYPE_bf16;
}

/* Which rounding a conversion must state: -1 for none, and -2 if there is no
 * such conversion. */
static int
rounding_of(Type to, Type from, int stated)
{
    bool to_float = ptx_types[to].class == CLASS_FLOAT;
    bool from_float = ptx_types[from].class == CLASS_FLOAT;
    enum { NONE = -1, RN = 0, WRONG = -2 };
    if (!to_float && !from_float)
        return NONE;
    if (!to_float)
        return is_narrow_float(from) || stated < 1 ? WRONG : stated;
    if (!from_float)
        return is_narrow_float(to) ? WRONG : RN;
    if (to == from)
        return is_narrow_float(to) || stated < 1 ? WRONG : stated;
    return ptx_types[to].bytes < ptx_types[from].bytes ? RN : NONE;
}

static bool
is_convertible(Type t)
{
    TypeClass c = t == NUM_TYPES ? CLASS_PRED : ptx_types[t].class;
    return c == CLASS_UNSIGNED || c == CLASS_SIGNED || c == CLASS_FLOAT;
}

/* A register of cvt and of ld may be wider than an integer's type. */
static Operand
wide_register(Parser *p, Type t, uint8_t *width)
{
    Type got;
    int line = p->x.token.line;
    Operand o = ptx_parse_register(p, &got);
    const TypeInfo *r = &ptx_types[got], *want = &ptx_types[t];
    bool is_float = want->class == CLASS_FLOAT;
    bool fits = is_float ? r->bytes == want->bytes : r->bytes >= want->bytes;
    if (r->class == CLASS_PRED || !fits ||
        (r->class == CLASS_FLOAT && !is_float && want->class != CLASS_BITS) ||
        (is_float && r->class != CLASS_FLOAT && r->class != CLASS_BITS))
        ptx_fail(&p->x, line, "a register of .%s for .%s", r->name, want->name);
    *width = r->bytes;
    return o;
}

/* cvt.rn.bf16x2.f32 d, a, b: a is the upper half. */
static void
decode_cvt_pack(Parser *p, Opcode *o, Insn *i, Type to)
{
    i->execute = ptx_cvt_pack;
    i->to = (uint8_t)to;
    if (!all_used(p, o, take_word(o, "f32")))
        return;
    parse_dst(p, i, TYPE_b32);
    parse_next_src(p, i, TYPE_f32);
    parse_next_src(p, i, TYPE_f32);
}

/* The only conversion that rounds ties away from 0. */
static void
decode_cvt_tf32(Parser *p, Opcode *o, Insn *i)
{
    const ArithRow *row = map_get(p->arith, o->name);
    o->used = row ? o->num : o->used;
    if (all_used(p, o, row != NULL))
        decode_arith(p, row, i);
}

static void
decode_cvt(Parser *p, Opcode *o, Insn *i)
{
    if (take_word(o, "rna")) {
        decode_cvt_tf32(p, o, i);
        return;
    }
    int rounding = take_one_of(o, roundings);
    Type to = take_type(o);
    if ((to == TYPE_f16x2 || to == TYPE_bf16x2) && rounding == 0) {
        decode_cvt_pack(p, o, i, to);
        return;
    }
    Type from = take_type(o);
    bool known = is_convertible(to) && is_convertible(from) &&
                 rounding_of(to, from, rounding) == rounding;
    if (!all_used(p, o, known))
        return;
    i->execute = ptx_cvt;
    i->to = (uint8_t)to;
    i->from = (uint8_t)from;
    i->mode = (uint8_t)(rounding < 0 ? 0 : rounding);
    Operand d = wide_register(p, to, &i->to_width);
    add_dst(i, d);
    ptx_expect(&p->x, ',');
    Operand s = wide_register(p, from, &i->from_width);
    add_src(i, s);
    const ArithRow *row = map_get(p->arith, o->name);
    if (row && i->to_width == ptx_types[to].bytes &&
        i->from_width == ptx_types[from].bytes)
        i->execute = row->execute; /* a faster one */
}

/* ---- ld and st ---------------------------------------------------------- */

static const char *const space_words[] = {"global", "shared", "local", "param",
                                          NULL};

static Space
take_space(Opcode *o)
{
    static const Space spaces[] = {SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL,
                                   SPACE_PARAM};
    int n = take_one_of(o, space_words);
    return n < 0 ? SPACE_GENERIC : spaces[n];
}

static void
note_grain(Parser *p, Space space, uint32_t bytes)
{
    uint32_t *grain = p->kernel->grain;
    for (int s = 0; s < NUM_SPACES; s++)
        if ((s == (int)space || space == SPACE_GENERIC) && bytes < grain[s])
            grain[s] = bytes;
}

static bool
take_access(Parser *p, Opcode *o, Insn *i, Type *type)
{
    static const char *const vectors[] = {"v2", "v4", NULL};
    Space space = take_space(o);
    i->access.space = (uint8_t)space;
    i->access.is_nc = space == SPACE_GLOBAL && take_word(o, "nc");
    int vector = take_one_of(o, vectors);
    i->access.count = vector < 0 ? 1 : vector ? 4 : 2;
    *type = take_type(o);
    bool known = *type != NUM_TYPES && ptx_types[*type].class != CLASS_PRED &&
                 *type != TYPE_f16x2 && *type != TYPE_bf16x2 &&
                 !is_narrow_float(*type);
    if (!all_used(p, o, known))
        return false;
    i->access.size = ptx_types[*type].bytes;
    i->access.is_signed = ptx_types[*type].class == CLASS_SIGNED;
    int bytes = i->access.size * i->access.count;
    if (bytes > 16)
        ptx_fail(&p->x, o->line, "an access of %d bytes", bytes);
    note_grain(p, space, (uint32_t)bytes);
    return !p->x.failed;
}

/* The registers that are loaded, or operands that are stored; all of the first
 * one's width. */
static void
parse_elements(Parser *p, Insn *i, Type type, bool loads)
{
    Access *a = &i->access;
    bool many = a->count > 1;
    if (many)
        ptx_expect(&p->x, '{');
    for (int n = 0; n < a->count && !p->x.failed; n++) {
        uint8_t width = a->size == 1 ? 2 : a->size;
        Operand o;
        if (n)
            ptx_expect(&p->x, ',');
        if (p->x.token.kind == TOKEN_NAME)
            o = wide_register(p, type, &width);
        else
            o = ptx_parse_src(p, a->size == 1 ? TYPE_b16 : type);
        if (n && width != a->width)
            ptx_fail(&p->x, p->x.token.line, "elements of different widths");
        a->width = width;
        if (loads)
            add_dst(i, o);
        else
            add_src(i, o);
    }
    if (many)
        ptx_expect(&p->x, '}');
}

static void
decode_ld(Parser *p, Opcode *o, Insn *i)
{
    Type type;
    if (!take_access(p, o, i, &type))
        return;
    Space space = (Space)i->access.space;
    i->execute = space == SPACE_PARAM ? ptx_exec_load_param : ptx_exec_load;
    parse_elements(p, i, type, true);
    ptx_expect(&p->x, ',');
    Operand at =
        ptx_parse_address(p, space, &i->access.offset, &i->access.narrow);
    add_src(i, at);
}

static void
decode_st(Parser *p, Opcode *o, Insn *i)
{
    Type type;
    if (!take_access(p, o, i, &type))
        return;
    if (i->access.space == SPACE_PARAM || i->access.is_nc) {
        unknown(p, o);
        return;
    }
    i->execute = ptx_exec_store;
    Operand at = ptx_parse_address(p, (Space)i->access.space, &i->access.offset,
                                   &i->access.narrow);
    add_src(i, at);
    ptx_expect(&p->x, ',');
    parse_elements(p, i, type, false);
}

/* ---- cp.async ------------------------------------------------ */

/* cp.async.ca|cg.shared.global [to], [from], bytes {, bytes of from}; */
static void
decode_async_copy(Parser *p, Opcode *o, Insn *i)
{
    bool cg = take_word(o, "cg");
    bool known = cg || take_word(o, "ca");
    known = known && take_word(o, "shared") && take_word(o, "global");
    if (!all_used(p, o, known))
        return;
    Access *a = &i->access;
    i->execute = ptx_async_copy;
    Operand to = ptx_parse_address(p, SPACE_SHARED, &a->offset, &a->narrow);
    add_src(i, to);
    ptx_expect(&p->x, ',');
    Operand from =
        ptx_parse_address(p, SPACE_GLOBAL, &a->from_offset, &a->from_narrow);
    add_src(i, from);
    ptx_expect(&p->x, ',');
    uint32_t bytes = ptx_parse_number(p, "a size");
    if (!(bytes == 16 || (!cg && (bytes == 4 || bytes == 8))))
        ptx_fail(&p->x, o->line, "%s of %u bytes", o->name, bytes);
    a->size = (uint8_t)bytes;
    note_grain(p, SPACE_SHARED, bytes);
    note_grain(p, SPACE_GLOBAL, ptx_is(&p->x, ',') ? 1 : bytes);
    if (ptx_is(&p->x, ','))
        parse_next_src(p, i, TYPE_b32);
    else
        add_src(i, ptx_constant(p, bytes, 4));
}

static void
decode_cp(Parser *p, Opcode *o, Insn *i)
{
    if (!take_word(o, "async")) {
        unknown(p, o);
    } else if (take_word(o, "commit_group")) {
        i->execute = ptx_async_commit;
        all_used(p, o, true);
    } else if (take_word(o, "wait_group")) {
        i->execute = ptx_async_wait;
        if (all_used(p, o, true))
            i->target = (int32_t)ptx_parse_number(p, "a number of groups");
    } else if (take_word(o, "wait_all")) {
        i->execute = ptx_async_wait;
        i->target = -1;
        all_used(p, o, true);
    } else {
        decode_async_copy(p, o, i);
    }
}

/* ---- control flow ------------------------------------------------------- */

static void
decode_bra(Parser *p, Opcode *o, Insn *i)
{
    i->flow = FLOW_BRANCH;
    i->is_uniform = take_word(o, "uni");
    if (!all_used(p, o, true))
        return;
    Fixup f = {p->kernel->code.len, o->line, NULL};
    f.label = ptx_expect_any_name(&p->x, "a label");
    VEC_PUSH(p->arena, p->fixups, f);
}

static void
decode_exit(Parser *p, Opcode *o, Insn *i)
{
    i->flow = FLOW_EXIT;
    take_word(o, "uni");
    all_used(p, o, true);
}

static void
decode_bar_warp(Parser *p, Opcode *o, Insn *i)
{
    i->flow = FLOW_WARP;
    i->execute = ptx_bar_warp;
    if (!all_used(p, o, take_word(o, "sync")))
        return;
    Operand mask = ptx_parse_src(p, TYPE_b32);
    add_src(i, mask);
}

/* bar.sync and barrier.sync.aligned, of all threads of the block. */
static void
decode_bar(Parser *p, Opcode *o, Insn *i)
{
    bool is_bar = !strcmp(o->words[0], "bar");
    if (is_bar && take_word(o, "warp")) {
        decode_bar_warp(p, o, i);
        return;
    }
    take_word(o, "cta");
    bool known = take_word(o, "sync") && (is_bar || take_word(o, "aligned"));
    if (!all_used(p, o, known))
        return;
    i->flow = FLOW_BARRIER;
    uint32_t number = ptx_parse_number(p, "a barrier's number");
    i->barrier = (uint8_t)number;
    if (number > 15)
        ptx_fail(&p->x, o->line, "barrier %u: there are 16", number);
    else if (ptx_is(&p->x, ','))
        ptx_fail(&p->x, o->line, "a barrier of some threads of a block");
}

/* ---- warp operations ---------------------------------------------------- */

static const char *const shfl_modes[] = {"up", "down", "bfly", "idx", NULL};
static const char *const vote_modes[] = {"all", "any", "uni", "ballot", NULL};
static const char *const redux_modes[] = {"add", "min", "max", "and",
                                          "or",  "xor", NULL};

static bool
take_mode(Opcode *o, Insn *i, const char *const *modes)
{
    int n = take_one_of(o, modes);
    i->mode = (uint8_t)(n < 0 ? 0 : n);
    i->flow = FLOW_WARP;
    return n >= 0;
}

/* The mask is the last operand and becomes the first source. */
static void
parse_mask(Parser *p, Insn *i)
{
    ptx_expect(&p->x, ',');
    i->src[0] = ptx_parse_src(p, TYPE_b32);
}

/* shfl.sync.MODE.b32 d{|p}, a, b, c, mask */
static void
decode_shfl(Parser *p, Opcode *o, Insn *i)
{
    bool known = take_word(o, "sync") && take_mode(o, i, shfl_modes);
    if (!all_used(p, o, known && take_word(o, "b32")))
        return;
    i->execute = ptx_shfl;
    i->num_src = 1;
    parse_dst(p, i, TYPE_b32);
    if (ptx_take(&p->x, '|'))
        parse_dst(p, i, TYPE_pred);
    for (int n = 0; n < 3; n++)
        parse_next_src(p, i, TYPE_b32);
    parse_mask(p, i);
}

/* vote.sync.MODE.pred d, {!}a, mask; vote.sync.ballot.b32 */
static void
decode_vote(Parser *p, Opcode *o, Insn *i)
{
    enum { BALLOT = 3 };
    bool known = take_word(o, "sync") && take_mode(o, i, vote_modes);
    bool ballot = i->mode == BALLOT;
    if (!all_used(p, o, known && take_word(o, ballot ? "b32" : "pred")))
        return;
    i->execute = ptx_vote;
    i->num_src = 1;
    parse_dst(p, i, ballot ? TYPE_b32 : TYPE_pred);
    ptx_expect(&p->x, ',');
    i->is_negated = ptx_take(&p->x, '!');
    Operand a = ptx_parse_src(p, TYPE_pred);
    add_src(i, a);
    parse_mask(p, i);
}

/* redux.sync.MODE.TYPE d, a, mask */
static void
decode_redux(Parser *p, Opcode *o, Insn *i)
{
    enum { AND = 3 };
    bool known = take_word(o, "sync") && take_mode(o, i, redux_modes);
    Type t = take_type(o);
    bool is_bits = t == TYPE_b32;
    known =
        known && (i->mode >= AND ? is_bits : t == TYPE_u32 || t == TYPE_s32);
    if (!all_used(p, o, known))
        return;
    i->execute = ptx_redux;
    i->to = (uint8_t)t;
    i->num_src = 1;
    parse_dst(p, i, t);
    parse_next_src(p, i, t);
    parse_mask(p, i);
}

static void
decode_activemask(Parser *p, Opcode *o, Insn *i)
{
    i->execute = ptx_activemask;
    if (all_used(p, o, take_word(o, "b32")))
        parse_dst(p, i, TYPE_b32);
}

/* {x, y, ...}, sources or destinations of an instruction. */
static void
parse_fragment(Parser *p, Insn *i, int num, Type t, bool is_dst)
{
    ptx_expect(&p->x, '{');
    for (int n = 0; n < num; n++) {
        if (n)
            ptx_expect(&p->x, ',');
        if (is_dst)
            parse_dst(p, i, t);
        else
            add_src(i, ptx_parse_src(p, t));
    }
    ptx_expect(&p->x, '}');
}

static bool
take_words(Opcode *o, const char *const *words, size_t num)
{
    bool known = true;
    for (size_t n = 0; n < num; n++)
        known = known && take_word(o, words[n]);
    return known;
}

/* A warp operation of all lanes. */
static void
begin_of_all(Parser *p, Insn *i, Execute *execute)
{
    i->execute = execute;
    i->flow = FLOW_WARP;
    add_src(i, ptx_constant(p, 0xffffffff, 4));
}

/* mma.sync.aligned.SHAPE.row.col.f32.TYPE.TYPE.f32 d, a, b, c */
static void
decode_mma(Parser *p, Opcode *o, Insn *i)
{
    static const char *const words[][9] = {
#define MMA_WORDS(shape, type)                                                 \
    {"sync", "aligned", shape, "row", "col", "f32", type, type, "f32"}
        [MMA_TF32] = MMA_WORDS("m16n8k8", "tf32"),
        [MMA_BF16] = MMA_WORDS("m16n8k16", "bf16"),
        [MMA_F16] = MMA_WORDS("m16n8k16", "f16"),
#undef MMA_WORDS
    };
    enum { NUM_KINDS = sizeof words / sizeof *words, NUM_WORDS = 9 };
    int kind = 0;
    Opcode all = *o;
    while (!take_words(o, words[kind], NUM_WORDS) && ++kind < NUM_KINDS)
        *o = all;
    if (!all_used(p, o, kind < NUM_KINDS))
        return;
    i->mode = (uint8_t)kind;
    begin_of_all(p, i, ptx_mma);
    parse_fragment(p, i, 4, TYPE_f32, true);
    static const int nums[] = {4, 2, 4};
    for (int n = 0; n < 3; n++) {
        ptx_expect(&p->x, ',');
        parse_fragment(p, i, nums[n], n < 2 ? TYPE_b32 : TYPE_f32, false);
    }
}

/* ldmatrix.sync.aligned.m8n8.x4{.trans}.shared.b16 d, [a] */
static void
decode_ldmatrix(Parser *p, Opcode *o, Insn *i)
{
    static const char *const words[] = {"sync", "aligned", "m8n8", "x4"};
    enum { NUM_WORDS = sizeof words / sizeof *words, BYTES = 16 };
    bool known = take_words(o, words, NUM_WORDS);
    i->mode = take_word(o, "trans");
    known = known && take_word(o, "shared") && take_word(o, "b16");
    if (!all_used(p, o, known))
        return;
    Access *a = &i->access;
    *a = (Access){.space = SPACE_SHARED, .size = 4, .count = 4, .width = 4};
    note_grain(p, SPACE_SHARED, BYTES);
    begin_of_all(p, i, ptx_exec_load_matrices);
    parse_fragment(p, i, 4, TYPE_b32, true);
    ptx_expect(&p->x, ',');
    add_src(i, ptx_parse_address(p, SPACE_SHARED, &a->offset, &a->narrow));
}

/* ---- all ---------------------------------------------------------------- */

static const struct {
    const char *word;
    Decode *decode;
} families[] = {
    {"mov", decode_mov},     {"cvt", decode_cvt},
    {"ld", decode_ld},       {"st", decode_st},
    {"cp", decode_cp},       {"bra", decode_bra},
    {"ret", decode_exit},    {"exit", decode_exit},
    {"bar", decode_bar},     {"barrier", decode_bar},
    {"shfl", decode_shfl},   {"vote", decode_vote},
    {"redux", decode_redux}, {"activemask", decode_activemask},
    {"mma", decode_mma},     {"ldmatrix", decode_ldmatrix},
};

static void
decode_name(Parser *p, Opcode *o, Insn *i)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        if (!strcmp(families[f].word, o->words[0])) {
            families[f].decode(p, o, i);
            return;
        }
    }
    const ArithRow *row = map_get(p->arith, o->name);
    if (row)
        decode_arith(p, row, i);
    else
        unknown(p, o);
}

static void
parse_guard(Parser *p, Insn *i)
{
    if (!ptx_take(&p->x, '@'))
        return;
    i->has_guard = true;
    i->guard_negated = ptx_take(&p->x, '!');
    i->guard = ptx_parse_dst(p, TYPE_pred);
}

void
ptx_parse_instruction(Parser *p)
{
    Insn i = {.line = p->x.token.line};
    Opcode o = {.line = p->x.token.line};
    parse_guard(p, &i);
    o.name = i.name = ptx_expect_any_name(&p->x, "an instruction");
    if (p->x.failed)
        return;
    if (!split_name(p, &o)) {
        unknown(p, &o);
        return;
    }
    decode_name(p, &o, &i);
    ptx_expect(&p->x, ';');
    if (!p->x.failed)
        VEC_PUSH(p->module->arena, p->kernel->code, i);
}
