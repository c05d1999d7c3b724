/*
 * calls.c - the calls that operations are inlined for, as text and back
 */
#include "ir/text/calls.h"

#include <stdlib.h>
#include <string.h>
#include "ir/ptrmap.h"
#include "ir/text/print.h"

/* ---- out ---------------------------------------------------------------- */

typedef struct CallPrinter {
    Str *out;
    const IrModule *module;
    Arena *arena;
    PtrMap *numbers; /* of calls, as pointers to ints */
    int num_calls;
    int number; /* of the last `count` operations */
    int64_t count;
} CallPrinter;

static int
number_of_call(const CallPrinter *p, const IrCall *call)
{
    const int *number = call ? ir_ptrmap_get(p->numbers, call) : NULL;
    return number ? *number : 0;
}

static void
print_call(CallPrinter *p, const IrCall *call)
{
    Loc loc = call->loc;
    int source = ir_source_index(p->module, loc.file);
    str_addf(p->out, "call %d %d %u %u %u %s %s\n",
             number_of_call(p, call->caller), source > 0 ? source : 0,
             source < 0 ? 0 : loc.line, loc.col, loc.len, call->function,
             call->layer ? call->layer : "-");
}

/* Callers first. */
static void
add_call(CallPrinter *p, const IrCall *call)
{
    if (!call || number_of_call(p, call))
        return;
    add_call(p, call->caller);
    int *number = NEW(p->arena, int);
    *number = ++p->num_calls;
    ir_ptrmap_set(p->numbers, call, number);
    print_call(p, call);
}

static void
add_call_of(IrOp *op, void *data)
{
    add_call(data, op->calls);
}

static void
end_run(CallPrinter *p)
{
    if (p->count)
        str_addf(p->out, " %lldx%d", (long long)p->count, p->number);
    p->count = 0;
}

static void
add_op(IrOp *op, void *data)
{
    CallPrinter *p = data;
    int number = number_of_call(p, op->calls);
    if (number != p->number)
        end_run(p);
    p->number = number;
    p->count++;
}

static void
print_library(CallPrinter *p)
{
    const Diag *d = p->module->diag;
    str_add(p->out, "library");
    for (int i = 0; i < diag_num_sources(d); i++)
        if (diag_is_library(d, (uint16_t)i) &&
            ir_source_index(p->module, (uint16_t)i) >= 0)
            str_addf(p->out, " %d", ir_source_index(p->module, (uint16_t)i));
    str_addc(p->out, '\n');
}

void
ir_print_calls(Str *out, IrModule *m)
{
    Arena *a = arena_new(NULL, "calls");
    PtrMap numbers = {.arena = a};
    CallPrinter p = {.out = out, .module = m, .arena = a, .numbers = &numbers};
    print_library(&p);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, add_call_of, &p);
    str_add(out, "ops");
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, add_op, &p);
    end_run(&p);
    str_addc(out, '\n');
    arena_release(a);
}

/* ---- in ----------------------------------------------------------------- */

typedef VEC(IrCall *) IrCalls;

typedef struct CallReader {
    IrModule *module;
    const char *at, *end;
    IrCalls calls;
    bool bad;
    int64_t left; /* operations of the current run */
    const IrCall *call;
} CallReader;

static bool
takes(CallReader *r, const char *text)
{
    size_t n = strlen(text);
    bool is = (size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0;
    r->at += is ? n : 0;
    return is;
}

/* A number from 0 to max. */
static int64_t
take_number(CallReader *r, int64_t max)
{
    int64_t x = 0;
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && x <= max)
        x = 10 * x + (*r->at++ - '0');
    r->bad = r->bad || r->at == begin || x > max;
    return r->bad ? 0 : x;
}

static int64_t
take_next(CallReader *r, int64_t max)
{
    r->bad = r->bad || !takes(r, " ");
    return take_number(r, max);
}

static const char *
take_word(CallReader *r)
{
    r->bad = r->bad || !takes(r, " ");
    const char *begin = r->at;
    while (r->at < r->end && *r->at > ' ')
        r->at++;
    r->bad = r->bad || r->at == begin;
    return arena_strndup(r->module->arena, begin, (size_t)(r->at - begin));
}

static uint16_t
take_source(CallReader *r)
{
    const IrModule *m = r->module;
    int num = m->lists_sources ? m->sources.len : diag_num_sources(m->diag);
    int64_t i = take_next(r, num - 1);
    if (r->bad)
        return 0;
    return m->lists_sources ? m->sources.data[i] : (uint16_t)i;
}

static void
read_library(CallReader *r)
{
    r->bad = !takes(r, "library");
    while (!r->bad && !takes(r, "\n")) {
        uint16_t file = take_source(r);
        if (!r->bad)
            diag_set_library(r->module->diag, file);
    }
}

static void
read_call(CallReader *r)
{
    IrCall *call = NEW(r->module->arena, IrCall);
    int64_t caller = take_next(r, r->calls.len);
    call->caller = caller ? r->calls.data[caller - 1] : NULL;
    call->loc.file = take_source(r);
    call->loc.line = (uint32_t)take_next(r, UINT32_MAX);
    call->loc.col = (uint32_t)take_next(r, UINT32_MAX);
    call->loc.len = (uint16_t)take_next(r, UINT16_MAX);
    call->function = take_word(r);
    const char *layer = take_word(r);
    call->layer = strcmp(layer, "-") == 0 ? NULL : layer;
    call->note = arena_printf(r->module->arena, "%s%s%s is called from here",
                              call->function, call->layer ? " of " : "",
                              call->layer ? call->layer : "");
    r->bad = r->bad || !takes(r, "\n");
    VEC_PUSH(r->module->arena, r->calls, call);
}

static void
begin_run(CallReader *r)
{
    r->left = take_next(r, INT64_MAX / 16);
    r->bad = r->bad || !r->left || !takes(r, "x");
    int64_t call = take_number(r, r->calls.len);
    r->call = call ? r->calls.data[call - 1] : NULL;
}

static void
read_op(IrOp *op, void *data)
{
    CallReader *r = data;
    if (!r->left && !r->bad)
        begin_run(r);
    if (r->bad)
        return;
    r->left--;
    op->calls = r->call;
}

bool
ir_parse_calls(IrModule *m, const char *text, size_t len)
{
    CallReader r = {.module = m, .at = text, .end = text + len};
    read_library(&r);
    while (!r.bad && takes(&r, "call"))
        read_call(&r);
    r.bad = r.bad || !takes(&r, "ops");
    for (IrFunc *fn = m->first; fn && !r.bad; fn = fn->next)
        ir_walk(fn->body, read_op, &r);
    return !r.bad && !r.left && takes(&r, "\n") && r.at == r.end;
}
