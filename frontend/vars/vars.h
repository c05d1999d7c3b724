/*
 * vars.h - state of variables beside the IR
 */
#ifndef TFD_FRONTEND_VARS_VARS_H
#define TFD_FRONTEND_VARS_VARS_H

#include "frontend/builtins/builtins.h"

/* Properties of a VAR clause that IrVar does not have. */
typedef struct FeVarInfo {
    IrVar *var;
    const AstNode *decl; /* VAR, and the names around it; NULL: a slot's */
    FeScope *scope;
    bool outside; /* not created in the strategy's scope */
    bool is_slot;
    bool unsynced; /* declared sync(on_read), which the strategy has not */
} FeVarInfo;

/* One variable of a family. */
typedef struct FeSlotVar {
    IrVar *of, *var;
} FeSlotVar;

struct FeSlot {
    const char *name; /* path: "adam.m" */
    const AstNode *init;
    const AstNode *type; /* of an element; or NULL: as the variable */
    FeScope *scope;      /* where these are evaluated */
    Loc loc;
    VEC(FeSlotVar) vars;
    Map *by_name; /* of the variable it is for, to its own */
};

struct FeVars {
    Map *infos; /* by name, in the order of module->vars */
    VEC(FeSlot *) slots;
    VEC(IrVar *) counters; /* of steps, each an i64 from 0 */
};

FeVars *fe_vars(Lower *cx);
const FeVarInfo *fe_var_info(Lower *cx, const IrVar *v);
/* Adds a variable to the module. */
FeVarInfo *fe_var_add(Lower *cx, IrVar *v, bool outside, bool is_slot);

/* ---- messages ----------------------------------------------------------- */

/* How to write value, which is node if that is not NULL, as one that all
 * replicas may assign to the variable (drift.c). */
const char *fe_var_drift_note(Lower *cx, const char *var, const AstNode *node,
                              const char *value);

/* ---- declarations ------------------------------------------------------- */

/* The variable of a VAR in scope (top level, module), its name prefixed; with
 * its @NAME.init.  colocate is the target of a block around it, or NULL. */
FeValue *fe_var_declare(Lower *cx, FeScope *scope, const AstNode *var,
                        FeValue *colocate);
/* Whether v may have a clause of that name that is about servers; an error if
 * the strategy has none. */
bool fe_var_may_have(Lower *cx, const IrVar *v, const char *name, Loc loc);
/* The number of parts of v by its clause partition (NULL: it has none), when
 * all else of it is known; false with a message. */
bool fe_var_partition(Lower *cx, IrVar *v, const AstNode *clause);
/* The server that its clause on names (NULL: it has none), when what v is
 * colocated with is known; false with a message. */
bool fe_var_on_server(Lower *cx, IrVar *v, const AstNode *clause);
/* A SLOT of an instance. */
FeValue *fe_slot_declare(Lower *cx, FeScope *scope, const AstNode *slot);
/* Once, at the end: @NAME.init of the slots that were used.  (A function made
 * while lowering may be cut back; see the top.) */
void fe_vars_finish(Lower *cx);
/* Gives every save and restore of main the values of its variables, once all
 * of these are known (checkpoint.c). */
void fe_checkpoints_finish(Lower *cx);

#endif
