/*
 * parse.c - a module from its text
 *
 * A recursive descent parser with one token, and lookahead where { and [ have
 * two meanings.  The input may be any bytes: nesting and ranks are bounded,
 * integers are checked, and everything else is left to the verifier, which
 * trusts nothing.
 */
#include "ir/text/parse.h"

#include <string.h>
#include "ir/base/io/limit.h"
#include "ir/dataset/stage.h"
#include "ir/text/text.h"
#include "ir/type_bounds.h"
#include "ir/words.h"

/* ---- lines before the functions ---------------------------------------- */

static bool
is_listed(const IrModule *m, int source)
{
    for (int i = 0; i < m->sources.len; i++) {
        if (m->sources.data[i] == source)
            return true;
    }
    return false;
}

/* A source that the caller has registered (with its text) is reused. */
static uint16_t
source_named(Parser *p, const char *name)
{
    for (int i = 0; i < diag_num_sources(p->diag); i++) {
        if (strcmp(diag_source_name(p->diag, (uint16_t)i), name) == 0 &&
            !is_listed(p->module, i))
            return (uint16_t)i;
    }
    return diag_add_source(p->diag, name, NULL, 0);
}

enum { MAX_SOURCES = 1024 };

static void
parse_source_line(Parser *p)
{
    IrModule *m = p->module;
    Loc at = ir_parse_here(p);
    int64_t number = ir_parse_int(p, 0, MAX_SOURCES - 1);
    if (number != m->sources.len)
        ir_parse_fail(p, at, "this is source %d", m->sources.len);
    const char *name = ir_parse_string(p);
    if (p->failed)
        return;
    uint16_t source = source_named(p, name);
    VEC_PUSH(m->arena, m->sources, source);
}

static void
parse_strategy(Parser *p)
{
    IrModule *m = p->module;
    m->strategy =
        (IrStrategy)ir_parse_word_of(p, ir_strategy_names, "a strategy");
    ir_parse_expect_word(p, "devices");
    m->devices = intern(m->names, ir_parse_string(p));
    if (ir_parse_accept_word(p, "workers"))
        m->num_workers = (int)ir_parse_int(p, 1, IR_MAX_REPLICAS);
    ir_parse_expect_word(p, "replicas");
    m->num_replicas = (int)ir_parse_int(p, 1, IR_MAX_REPLICAS);
    if (ir_parse_accept_word(p, "home"))
        m->home = (int)ir_parse_int(p, 0, m->num_replicas - 1);
    if (ir_parse_accept_word(p, "algorithm")) {
        m->algorithm = (IrAlgorithm)ir_parse_one_of(p, WORDS_ALGORITHM,
                                                    ~(1u << ALGORITHM_auto),
                                                    "a cross-device operation");
        ir_parse_expect_word(p, "packs");
        m->packs = (int)ir_parse_int(p, 0, IR_MAX_PACKS);
        if (ir_parse_accept_word(p, "root"))
            m->root = (int)ir_parse_int(p, 0, m->num_replicas - 1);
    }
    if (ir_parse_accept_word(p, "bytes_per_pack"))
        m->bytes_per_pack = ir_parse_int(p, 0, IR_MAX_BYTES);
    if (ir_parse_accept_word(p, "timeout_ms"))
        m->timeout_ms = ir_parse_int(p, 1, IR_MAX_TIMEOUT_MS);
}

/* "n <= 4": a symbol; its number. */
static int32_t
parse_bounded(Parser *p)
{
    IrModule *m = p->module;
    IrSymbol s = {.partner = -1, .of = -1};
    Loc at = ir_parse_here(p);
    int32_t number = m->symbols.len;
    s.name = ir_parse_word(p, "a batch symbol");
    if (!p->failed &&
        (map_get(p->symbols, s.name) || strchr(s.name, '.') ||
         ir_word_index(ir_space_words, s.name, strlen(s.name)) >= 0))
        ir_parse_fail(p, at, "a new batch symbol cannot be named %s", s.name);
    ir_parse_expect(p, '<');
    ir_parse_expect(p, '=');
    s.bound = ir_parse_int(p, 0, IR_MAX_BYTES);
    VEC_PUSH(m->arena, m->symbols, s);
    map_set(p->symbols, s.name, (void *)(intptr_t)(number + 1));
    return number;
}

/* "n replica 0" after "n_0 <= 4 of": the symbol whose rows it is. */
static void
parse_of_replica(Parser *p, int32_t number)
{
    IrSymbol *s = &p->module->symbols.data[number];
    s->of = ir_parse_symbol(p, "a batch symbol");
    ir_parse_expect_word(p, "replica");
    s->replica = (int32_t)ir_parse_int(p, 0, IR_MAX_REPLICAS);
}

static void
parse_symbol_line(Parser *p)
{
    IrModule *m = p->module;
    do {
        int32_t local = parse_bounded(p);
        if (ir_parse_accept_word(p, "alone"))
            continue;
        if (ir_parse_accept_word(p, "of")) {
            parse_of_replica(p, local);
            continue;
        }
        ir_parse_expect(p, ',');
        int32_t global = parse_bounded(p);
        m->symbols.data[local].partner = global;
        m->symbols.data[global].partner = local;
        m->symbols.data[global].global = true;
    } while (ir_parse_accept(p, ','));
}

static void
parse_param(Parser *p)
{
    IrParam *param = NEW(p->module->arena, IrParam);
    param->name = ir_parse_name(p);
    ir_parse_expect(p, ':');
    bool is_text = ir_parse_accept_word(p, "str");
    param->dtype = is_text ? DT_u8 : ir_parse_dtype(p);
    ir_parse_expect(p, '=');
    if (is_text)
        param->text = arena_strdup(p->module->arena, ir_parse_string(p));
    else
        param->value = ir_parse_scalar(p, param->dtype);
    param->loc = ir_parse_loc(p);
    VEC_PUSH(p->module->arena, p->module->params, param);
}

/* "sync(on_read)" */
static int
parse_clause(Parser *p, const char *name, const char *const *words)
{
    ir_parse_expect_word(p, name);
    ir_parse_expect(p, '(');
    int i = ir_parse_word_of(p, words, name);
    ir_parse_expect(p, ')');
    return i;
}

static IrAgg
parse_aggregate(Parser *p)
{
    ir_parse_expect_word(p, "aggregate");
    ir_parse_expect(p, '(');
    int i = ir_parse_one_of(p, WORDS_AGG, IR_VAR_AGGS, "aggregate");
    ir_parse_expect(p, ')');
    return (IrAgg)i;
}

static void
parse_var(Parser *p)
{
    IrVar *v = NEW(p->module->arena, IrVar);
    v->name = ir_parse_name(p);
    ir_parse_expect(p, ':');
    v->type = ir_parse_type(p);
    v->place = ir_parse_place(p);
    v->sync = (VarSync)parse_clause(p, "sync", ir_sync_words);
    v->agg = parse_aggregate(p);
    v->trainable = ir_parse_accept_word(p, "trainable");
    v->non_slot = ir_parse_accept_word(p, "non_slot");
    if (ir_parse_accept_word(p, "colocate"))
        v->colocate = ir_parse_name(p);
    if (ir_parse_accept_word(p, "parts"))
        v->parts = ir_parse_int(p, 2, INT64_MAX);
    if (ir_parse_accept_word(p, "server"))
        v->server = ir_parse_int(p, 0, IR_MOST_SERVERS - 1) + 1;
    if (ir_parse_accept_word(p, "init"))
        v->init = ir_parse_name(p);
    v->loc = ir_parse_loc(p);
    ir_var_add(p->module, v);
}

/* ---- datasets ---------------------------------------------------------- */

static void
parse_stage_ints(Parser *p, IrStage *s)
{
    const char *name = ir_stage_info[s->kind].int_names;
    for (int i = 0; *name; i++) {
        size_t n = strcspn(name, " ");
        ir_parse_expect_word(p, arena_strndup(p->scratch, name, n));
        ir_parse_expect(p, '=');
        s->ints[i] = ir_parse_int(p, INT64_MIN, INT64_MAX);
        name += n + (name[n] == ' ');
    }
}

static void
parse_stage_types(Parser *p, IrStage *s)
{
    if (p->token.first || !ir_parse_accept(p, ':'))
        return;
    do
        VEC_PUSH(p->module->arena, s->types, ir_parse_type(p));
    while (ir_parse_accept(p, ','));
}

static void
parse_strings(Parser *p, IrNames *out)
{
    Arena *a = p->module->arena;
    do
        VEC_PUSH(a, *out, arena_strdup(a, ir_parse_string(p)));
    while (ir_parse_accept(p, ','));
}

static void
parse_stage(Parser *p, IrDataset *d)
{
    IrStage s = {0};
    StageKind kind = STAGE_range;
    Loc at = ir_parse_here(p);
    const char *word = ir_parse_word(p, "a stage");
    if (!p->failed && !ir_stage_by_name(word, &kind))
        ir_parse_fail(p, at, "there is no stage %s", word);
    const IrStageInfo *info = &ir_stage_info[kind];
    s.kind = (int)kind;
    parse_stage_ints(p, &s);
    if (info->reads)
        parse_strings(p, &s.paths);
    if (info->has_names && !p->token.first && ir_parse_accept_word(p, "names"))
        parse_strings(p, &s.names);
    if (info->has_func)
        s.func = ir_parse_name(p);
    if (info->has_other) {
        ir_parse_expect_word(p, "with");
        s.other = ir_parse_name(p);
    }
    if (!p->token.first && ir_parse_accept_word(p, "data")) {
        ir_parse_expect(p, '=');
        s.data = ir_parse_hex(p, &s.data_size);
    }
    parse_stage_types(p, &s);
    s.loc = ir_parse_loc(p);
    VEC_PUSH(p->module->arena, d->stages, s);
}

static void
parse_dataset(Parser *p)
{
    IrDataset *d = NEW(p->module->arena, IrDataset);
    d->name = ir_parse_name(p);
    d->loc = ir_parse_loc(p);
    ir_parse_expect(p, '{');
    while (!p->failed && !ir_parse_accept(p, '}'))
        parse_stage(p, d);
    VEC_PUSH(p->module->arena, p->module->datasets, d);
}

static void
parse_iter(Parser *p)
{
    IrIter *it = NEW(p->module->arena, IrIter);
    it->name = ir_parse_name(p);
    it->whole = ir_parse_accept_word(p, "from");
    if (!it->whole)
        ir_parse_expect_word(p, "of");
    do
        VEC_PUSH(p->module->arena, it->datasets, ir_parse_name(p));
    while (it->whole && ir_parse_accept(p, ','));
    if (!it->whole) {
        ir_parse_expect_word(p, "shard");
        it->shard =
            (ShardPolicy)ir_parse_word_of(p, ir_shard_words, "a policy");
    }
    it->per_worker = ir_parse_accept_word(p, "per_worker");
    if (it->per_worker && ir_parse_accept_word(p, "shard"))
        it->workers = (WorkerShard)ir_parse_word_of(p, ir_worker_shard_words,
                                                    "what a worker has");
    it->buffer = 1;
    if (ir_parse_accept_word(p, "buffer"))
        it->buffer = ir_parse_int(p, 0, IR_MAX_PREFETCH);
    it->on_host = ir_parse_accept_word(p, "on_host");
    it->rows = -1;
    if (ir_parse_accept_word(p, "rows"))
        it->rows = ir_parse_symbol(p, "a batch symbol");
    it->loc = ir_parse_loc(p);
    VEC_PUSH(p->module->arena, p->module->iters, it);
}

/* ---- the whole --------------------------------------------------------- */

static const struct {
    const char *word;
    void (*parse)(Parser *p);
    bool once;
} lines[] = {
    /* in their required order */
    {"source", parse_source_line, false},
    {"strategy", parse_strategy, true},
    {"symbols", parse_symbol_line, true},
    {"param", parse_param, false},
    {"var", parse_var, false},
    {"dataset", parse_dataset, false},
    {"iter", parse_iter, false},
    {"func", ir_parse_func, false},
};

enum { NUM_LINES = sizeof lines / sizeof *lines };

static void
parse_header(Parser *p)
{
    ir_parse_expect_word(p, "tfd");
    ir_parse_expect(p, '-');
    ir_parse_expect_word(p, "ir");
    Loc at = ir_parse_here(p);
    int64_t version = ir_parse_int(p, 1, INT32_MAX);
    if (version != IR_TEXT_VERSION)
        ir_parse_fail(p, at, "this is version %lld of the text; known is %d",
                      (long long)version, IR_TEXT_VERSION);
    ir_parse_expect_word(p, "phase");
    p->module->phase = ir_parse_word_of(p, ir_phase_words, "a phase");
    if (ir_parse_accept_word(p, "after"))
        p->module->after = ir_parse_word(p, "a pass");
}

/* Reads a line, of the same kind as the line before or a later one; returns its
 * kind. */
static int
parse_line(Parser *p, int before)
{
    Loc at = ir_parse_here(p);
    const char *word = ir_parse_word(p, "a declaration");
    for (int i = 0; i < NUM_LINES && !p->failed; i++) {
        if (strcmp(word, lines[i].word) != 0)
            continue;
        if (i < before || (i == before && lines[i].once))
            ir_parse_fail(p, at, "%s stands too late", word);
        lines[i].parse(p);
        return i;
    }
    ir_parse_fail(p, at, "expected a declaration or func, not %s", word);
    return before;
}

static void
parse_module(Parser *p)
{
    int kind = -1;
    ir_parse_next(p);
    parse_header(p);
    while (!p->failed && p->token.kind != TOKEN_END)
        kind = parse_line(p, kind);
}

IrModule *
ir_parse(Arena *a, Intern *names, Diag *d, uint16_t file, const char *text,
         size_t len)
{
    Arena *scratch = arena_new(NULL, "reading IR");
    Parser p = {.scratch = scratch,
                .module = ir_module_new(a, names, d),
                .diag = d,
                .file = file,
                .lexer = ir_lex_new(scratch, text, len),
                .symbols = map_new(scratch)};
    p.module->lists_sources = true;
    p.module->text = (Loc){.line = 1, .col = 1, .len = 1, .file = file};
    if (len > (size_t)limit_value(LIMIT_module))
        ir_parse_fail(&p, (Loc){.file = file}, "%s",
                      limit_message(scratch, LIMIT_module));
    parse_module(&p);
    arena_release(scratch);
    return p.failed ? NULL : p.module;
}
