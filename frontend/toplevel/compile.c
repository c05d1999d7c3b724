/*
 * compile.c - from a source file to a module: the order of things
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/dist/strategy.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/lower/call.h"
#include "frontend/toplevel/toplevel.h"
#include "frontend/vars/vars.h"

#include "frontend/syntax/parse.h"
#include "ir/base/io/file.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "ir/verify/verify.h"

/* ---- the program -------------------------------------------------------- */

/* The declaration of that kind, NULL without one; of several, which is an
 * error, the last.  what names the kind. */
static const AstNode *
single_declaration(Lower *cx, const AstNode *program, AstKind kind,
                   const char *what)
{
    const AstNode *found = NULL;
    const AstList *decls = &program->program.decls;
    for (int i = 0; i < decls->len; i++) {
        const AstNode *decl = decls->data[i];
        if (decl->kind != kind)
            continue;
        if (found)
            fe_error_show(cx, decl->loc, found->loc,
                          "the first is here: leave one of them out",
                          "a program has one %s, and this is the second", what);
        found = decl;
    }
    return found;
}

/* A print or summary in a step is one for all replicas where the program says
 * that its operands are mirrored; passes that find out more do not change this.
 */
static void
mark_per_replica_output(IrOp *op, void *unused)
{
    (void)unused;
    bool is_output = op->kind == OP_print || op->kind == OP_summary;
    if (!is_output || ir_context(op->block) == CX_CROSS)
        return;
    bool own = ir_divergence(op->block) != NULL;
    for (int i = 0; i < op->num_operands; i++)
        own |= op->operands[i]->type.locality == LOCAL_PER_REPLICA;
    if (own)
        ir_set_int(op, A_each, 1);
}

/* The first return in n; loc without one. */
static Loc
returned_at(const AstNode *n, Loc loc)
{
    AstNode *child;
    if (n->kind == AST_RETURN)
        return n->loc;
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));) {
        Loc found = child->kind == AST_FN ? loc : returned_at(child, loc);
        if (!loc_is_same(found, loc))
            return found;
    }
    return loc;
}

static void
lower_body(Lower *cx, const AstNode *body, Loc loc)
{
    FeScope *scope = fe_scope_new(cx, cx->file, SCOPE_FUNC);
    FeValue *v = fe_exec_body(cx, scope, body);
    if (v->kind != FE_NONE && !fe_is_poison(v))
        fe_error_note(cx, returned_at(body, loc),
                      "leave the return out; print(...) shows a value",
                      "main returns nothing");
}

static void
lower_branch(Lower *cx, IrOp *op, int region, const AstNode *body)
{
    FeRegion saved = fe_region_enter(cx, op->regions[region], cx->context);
    lower_body(cx, body, op->loc);
    fe_region_leave(cx, &saved);
    ir_build_yield(op->regions[region], 0, NULL, op->loc);
}

/* One function has what an evaluator does and what all others do: so passes,
 * plans and the runtime know of one main. */
static void
lower_choice(Lower *cx, const AstNode *main, const AstNode *evaluate)
{
    IrOp *evaluates = fe_op(cx, OP_evaluates, 0, NULL, evaluate->loc);
    if (fe_is_poison(fe_emit(cx, evaluates)))
        return;
    IrOp *choice =
        fe_nested_op(cx, OP_if, 1, &evaluates->results[0], evaluate->loc);
    if (!choice)
        return;
    lower_branch(cx, choice, 0, evaluate->evaluate.body);
    lower_branch(cx, choice, 1, main->main.body);
    ir_op_close(choice);
}

/* evaluate: what an evaluator does, or NULL. */
static void
lower_main(Lower *cx, const AstNode *main, const AstNode *evaluate)
{
    FeRegion saved;
    IrFunc *fn =
        fe_func_open(cx, "main", FUNC_MAIN, FE_CROSS, main->loc, &saved);
    if (evaluate)
        lower_choice(cx, main, evaluate);
    else
        lower_body(cx, main->main.body, main->loc);
    fe_grad_warn_of_sums(cx, fn->body);
    fe_func_close(cx, fn, &saved, &fe_none, main->loc);
    /* a loop may carry values that are on the devices after its first iteration
     * only */
    if (diag_num_errors(cx->diag) == 0) {
        ir_infer_localities(fn);
        ir_walk(fn->body, mark_per_replica_output, NULL);
    }
}

static void
lower_program(Lower *cx, const AstNode *program)
{
    const AstNode *main = single_declaration(cx, program, AST_MAIN, "main");
    const AstNode *evaluate =
        single_declaration(cx, program, AST_EVALUATE, "main evaluate");
    if (!main)
        fe_error(cx, program->loc, "the program has no main { ... }");
    fe_strategy(cx, single_declaration(cx, program, AST_STRATEGY, "strategy"));
    fe_declare(cx, cx->file, &program->program.decls);
    fe_check_defines(cx);
    fe_evaluate(cx, cx->file);
    if (main)
        lower_main(cx, main, evaluate);
    if (diag_num_errors(cx->diag) == 0)
        ir_check_batches(cx->module, cx->diag);
    fe_checkpoints_finish(cx);
    fe_vars_finish(cx);
}

static IrFunc *
new_detached_func(IrModule *m)
{
    IrFunc *fn = ir_func_new(m, "detached", FUNC_HOST, NO_LOC);
    ir_func_remove(fn);
    return fn;
}

static void
init_lower(Lower *cx, Arena *a, Intern *names, Diag *d,
           const FeOptions *options)
{
    *cx = (Lower){.arena = a, .names = names, .diag = d, .options = options};
    cx->module = ir_module_new(a, names, d);
    cx->instances = map_new(a);
    cx->detached = new_detached_func(cx->module);
    cx->builtins = fe_scope_new(cx, NULL, SCOPE_BUILTINS);
    cx->file = fe_scope_new(cx, cx->builtins, SCOPE_FILE);
    cx->scope = cx->file;
    cx->first_bytes = arena_bytes(a);
}

IrModule *
fe_compile(Arena *a, Intern *names, Diag *d, const FeOptions *options)
{
    Lower cx;
    int errors = diag_num_errors(d);
    uint16_t file = diag_add_source(d, file_name(options->path), options->text,
                                    options->len);
    diag_set_path(d, file, options->path);
    AstNode *program =
        fe_parse_on(a, names, d, file, options->text, options->len);
    if (!program)
        return NULL;
    init_lower(&cx, a, names, d, options);
    cx.source_bytes = options->len;
    lower_program(&cx, program);
    return diag_num_errors(d) == errors ? cx.module : NULL;
}
