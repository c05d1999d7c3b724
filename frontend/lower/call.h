/*
 * call.h - calls of functions, modules and builtins
 */
#ifndef TFD_FRONTEND_LOWER_CALL_H
#define TFD_FRONTEND_LOWER_CALL_H

#include "frontend/context/scope.h"

typedef struct FeArg {
    const char *name; /* or NULL: by position */
    FeValue *value;
    const AstNode *node; /* as written, or NULL */
    Loc loc;
    Loc whole; /* name = value */
} FeArg;

typedef struct FeCall {
    const char *name; /* of the function, for messages */
    FeArg *args;      /* those by name last */
    int num_args;
    Loc loc;
} FeCall;

/* Evaluates the arguments of a CALL of callee, or of a method, which is NULL.
 * Where a builtin takes an enumerator, the NAME of a builtin (sum) is that even
 * if it is bound, and an unbound name is text. */
FeCall fe_call_args(Lower *cx, const AstNode *call, const FeValue *callee,
                    const char *name);
/* Assigns arguments to parameters: out[i] is that of names[i], or NULL if it
 * was not given.  False with a message for too many, unknown, twice. */
bool fe_match_args(Lower *cx, const FeCall *call, int n,
                   const char *const *names, FeArg **out);
/* Calls anything that can be called; the chain of calls says that it is called
 * from call->loc.  verb is "called", "run", ... */
FeValue *fe_call(Lower *cx, FeValue *callee, const FeCall *call,
                 const char *verb);
/* Calls f with values: for map, filter, values_from, slot initialisers.  A
 * tuple fills several parameters when spread is set. */
FeValue *fe_call_with(Lower *cx, FeValue *f, int n, FeValue *const *values,
                      bool spread, const char *verb, Loc loc);
/* The arguments of a call as they are written; NULL where one is not. */
const char *fe_written_arguments(Lower *cx, const FeCall *call);
/* "train_step", "a function": for messages. */
const char *fe_callee_name(const FeValue *callee);

/* Whether a string is a number, "0.1". */
bool fe_is_number_text(const char *text);
/* The repair where a string is the name of a function, or a number, in quotes;
 * else NULL. */
const char *fe_unquoted_note(Lower *cx, const FeValue *v);

/* A scope within `around` with the parameters (FORMAL) of a function or module
 * bound to the arguments.  NULL with a message. */
FeScope *fe_bind_params(Lower *cx, const AstList *params, FeScope *around,
                        const FeCall *call);

/* The statements of a block in a new scope of that kind; the value of its
 * return, NONE without one.  Names may have been bound to the scope before. */
FeValue *fe_exec_body(Lower *cx, FeScope *scope, const AstNode *block);

/* zip(a, b, ...): its row of builtins.def calls it (lower_nest.c). */
FeValue *fe_zip(Lower *cx, const FeCall *call);

#endif
