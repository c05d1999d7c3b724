/*
 * print_module.c - declarations before the functions, and whole modules
 */
#include "ir/text/print.h"

#include "ir/dataset/stage.h"
#include "ir/text/text.h"
#include "ir/type_text.h"
#include "ir/words.h"

static void
print_source(Str *out, const IrModule *m, int i, uint16_t file)
{
    const char *name = diag_source_name(m->diag, file);
    str_addf(out, "source %d ", i);
    str_add_quoted(out, name, strlen(name));
    str_addc(out, '\n');
}

static void
print_sources(Str *out, const IrModule *m)
{
    for (int i = 0; i < m->sources.len; i++)
        print_source(out, m, i, m->sources.data[i]);
    for (int i = 0; !m->lists_sources && i < diag_num_sources(m->diag); i++)
        print_source(out, m, i, (uint16_t)i);
}

static void
print_symbols(Str *out, const IrModule *m)
{
    for (int i = 0; i < m->symbols.len; i++) {
        const IrSymbol *s = &m->symbols.data[i];
        str_addf(out, "%s%s <= %lld", i ? ", " : "symbols ", s->name,
                 (long long)s->bound);
        if (s->of >= 0)
            str_addf(out, " of %s replica %d", m->symbols.data[s->of].name,
                     s->replica);
        else if (s->partner < 0)
            str_add(out, " alone");
    }
    if (m->symbols.len)
        str_addc(out, '\n');
}

static void
print_param(Str *out, const IrModule *m, const IrParam *p)
{
    str_add(out, "param ");
    ir_print_name(out, p->name);
    str_addf(out, ": %s = ", p->text ? "str" : dtype_info[p->dtype].name);
    if (p->text)
        str_add_quoted(out, p->text, strlen(p->text));
    else
        ir_print_scalar(out, p->value);
    ir_print_loc(out, m, p->loc);
    str_addc(out, '\n');
}

static void
print_var(Str *out, const IrModule *m, const IrVar *v)
{
    str_add(out, "var ");
    ir_print_name(out, v->name);
    str_add(out, ": ");
    ir_print_type(out, m, &v->type);
    ir_print_place(out, v->place);
    str_addf(out, " sync(%s) aggregate(%s)", ir_sync_words[v->sync],
             ir_words[WORDS_AGG][v->agg]);
    str_add(out, v->trainable ? " trainable" : "");
    str_add(out, v->non_slot ? " non_slot" : "");
    if (v->colocate) {
        str_add(out, " colocate ");
        ir_print_name(out, v->colocate);
    }
    if (v->parts > 1)
        str_addf(out, " parts %lld", (long long)v->parts);
    if (v->server)
        str_addf(out, " server %lld", (long long)v->server - 1);
    if (v->init) {
        str_add(out, " init ");
        ir_print_name(out, v->init);
    }
    ir_print_loc(out, m, v->loc);
    str_addc(out, '\n');
}

/* " size=8 drop_remainder=0": the names are in the stage's row. */
static void
print_stage_ints(Str *out, const IrStage *s)
{
    const char *name = ir_stage_info[s->kind].int_names;
    for (int i = 0; *name; i++) {
        size_t n = strcspn(name, " ");
        str_addc(out, ' ');
        str_addn(out, name, n);
        str_addf(out, "=%lld", (long long)s->ints[i]);
        name += n + (name[n] == ' ');
    }
}

/* " names \"x\", \"y\"" */
static void
print_strings(Str *out, const char *what, const IrNames *names)
{
    for (int i = 0; i < names->len; i++) {
        str_addf(out, "%s%s", i ? ", " : " ", i ? "" : what);
        str_add_quoted(out, names->data[i], strlen(names->data[i]));
    }
}

static void
print_stage(Str *out, const IrModule *m, const IrStage *s)
{
    str_addf(out, "  %s", ir_stage_info[s->kind].name);
    print_stage_ints(out, s);
    print_strings(out, "", &s->paths);
    print_strings(out, "names ", &s->names);
    if (s->func) {
        str_addc(out, ' ');
        ir_print_name(out, s->func);
    }
    if (s->other) {
        str_add(out, " with ");
        ir_print_name(out, s->other);
    }
    if (s->data) {
        str_add(out, " data=");
        ir_print_hex(out, s->data, s->data_size);
    }
    for (int i = 0; i < s->types.len; i++) {
        str_add(out, i ? ", " : " : ");
        ir_print_type(out, m, &s->types.data[i]);
    }
    ir_print_loc(out, m, s->loc);
    str_addc(out, '\n');
}

static void
print_dataset(Str *out, const IrModule *m, const IrDataset *d)
{
    str_add(out, "dataset ");
    ir_print_name(out, d->name);
    ir_print_loc(out, m, d->loc);
    str_add(out, " {\n");
    for (int i = 0; i < d->stages.len; i++)
        print_stage(out, m, &d->stages.data[i]);
    str_add(out, "}\n");
}

static void
print_iter(Str *out, const IrModule *m, const IrIter *it)
{
    str_add(out, "iter ");
    ir_print_name(out, it->name);
    for (int i = 0; i < it->datasets.len; i++) {
        str_add(out, i ? ", " : it->whole ? " from " : " of ");
        ir_print_name(out, it->datasets.data[i]);
    }
    if (!it->whole)
        str_addf(out, " shard %s", ir_shard_words[it->shard]);
    str_add(out, it->per_worker ? " per_worker" : "");
    if (it->workers)
        str_addf(out, " shard %s", ir_worker_shard_words[it->workers]);
    if (it->buffer != 1)
        str_addf(out, " buffer %lld", (long long)it->buffer);
    str_add(out, it->on_host ? " on_host" : "");
    if (it->rows >= 0)
        str_addf(out, " rows %s", m->symbols.data[it->rows].name);
    ir_print_loc(out, m, it->loc);
    str_addc(out, '\n');
}

void
ir_print_module(Str *out, const IrModule *m)
{
    str_addf(out, "tfd-ir %d phase %s", IR_TEXT_VERSION,
             ir_phase_words[m->phase]);
    if (m->after && m->phase != PHASE_PLACED)
        str_addf(out, " after %s", m->after);
    str_addc(out, '\n');
    print_sources(out, m);
    str_addf(out, "strategy %s devices ", ir_strategy_names[m->strategy]);
    str_add_quoted(out, m->devices, strlen(m->devices));
    if (ir_strategy_info[m->strategy].workers)
        str_addf(out, " workers %d", m->num_workers);
    str_addf(out, " replicas %d", m->num_replicas);
    if (m->home)
        str_addf(out, " home %d", m->home);
    if (m->algorithm)
        str_addf(out, " algorithm %s packs %d",
                 ir_words[WORDS_ALGORITHM][m->algorithm], m->packs);
    if (m->root)
        str_addf(out, " root %d", m->root);
    if (m->bytes_per_pack >= 0)
        str_addf(out, " bytes_per_pack %lld", (long long)m->bytes_per_pack);
    if (m->timeout_ms)
        str_addf(out, " timeout_ms %lld", (long long)m->timeout_ms);
    str_addc(out, '\n');
    print_symbols(out, m);
    for (int i = 0; i < m->params.len; i++)
        print_param(out, m, m->params.data[i]);
    for (int i = 0; i < m->vars.len; i++)
        print_var(out, m, m->vars.data[i]);
    for (int i = 0; i < m->datasets.len; i++)
        print_dataset(out, m, m->datasets.data[i]);
    for (int i = 0; i < m->iters.len; i++)
        print_iter(out, m, m->iters.data[i]);
    for (const IrFunc *fn = m->first; fn; fn = fn->next) {
        str_addc(out, '\n');
        ir_print_func(out, fn);
    }
}

const char *
ir_module_text(Arena *a, const IrModule *m)
{
    Str s = str_new(a);
    ir_print_module(&s, m);
    return str_text(&s);
}
