/*
 * scope.h - names and their bindings
 */
#ifndef TFD_FRONTEND_CONTEXT_SCOPE_H
#define TFD_FRONTEND_CONTEXT_SCOPE_H

#include "frontend/context/lower.h"

typedef enum FeScopeKind {
    SCOPE_BUILTINS,
    SCOPE_FILE,
    SCOPE_INSTANCE, /* members of an instance of a module */
    SCOPE_FUNC,     /* parameters of a function, the block of an update: muts
                       around are not assigned */
    SCOPE_MERGE,    /* as that; per-replica values around are not seen */
    SCOPE_BLOCK,
    SCOPE_NAMESPACE /* fields of a namespace; has no parent */
} FeScopeKind;

struct FeBinding {
    const char *name;
    FeValue *value;          /* NULL: a declaration not looked at yet */
    const AstNode *decl;     /* then: CONST, LET, VAR, ... */
    const AstNode *colocate; /* target of the block around decl, or NULL */
    FeScope *scope;
    /* Of a parameter: what the call gives it, as it is written there, and the
     * names around; or NULL. */
    const AstNode *argument;
    FeScope *caller;
    int64_t serial; /* bindings made before have lower ones */
    bool is_mut;
    bool being_made; /* decl is being evaluated */
    Loc loc;
};

struct FeScope {
    FeScope *parent;
    FeScopeKind kind;
    VEC(FeBinding *) names;
    Map *index; /* of names, the last of each; NULL while they are few */
    VEC(FeScope *) used;  /* SCOPE_FILE: what it uses */
    const char *prefix;   /* of variables declared here: "", "fc." */
    FeInstance *instance; /* SCOPE_INSTANCE */
};

struct FeInstance {
    const AstNode *module;
    const char *path; /* "blocks.0.fc" */
    FeScope *scope;   /* its members; the parent holds its parameters */
    Loc loc;
};

FeScope *fe_scope_new(Lower *cx, FeScope *parent, FeScopeKind kind);
/* Adds a name, hiding that of outer scopes ("_" is no name).  A second one in
 * the same scope is an error in SCOPE_FILE and SCOPE_INSTANCE and hides the
 * first elsewhere.  A nest beyond the limits becomes POISON with a message. */
FeBinding *fe_bind(Lower *cx, FeScope *scope, const char *name, FeValue *value,
                   Loc loc);
/* The last binding of a name in this scope alone, or NULL. */
FeBinding *fe_scope_find(const FeScope *scope, const char *name);
/* A mut that the program cannot name. */
FeBinding *fe_hidden_mut(Lower *cx, const char *name, FeValue *value, Loc loc);
/* The binding of a name in cx->scope, builtins aside. */
typedef struct FeFoundBinding {
    FeBinding *binding; /* or NULL */
    FeBinding *other;   /* the same name in another used module, or NULL */
    bool leaves_func;   /* it is outside the function, */
    bool leaves_merge;  /* or the merge, that it is used in */
} FeFoundBinding;
FeFoundBinding fe_find_binding(Lower *cx, const char *name);
/* The expression of the program's own text that node, of the library, is
 * a parameter for: fc(e.x) for the x of a layer that is called so.  node itself
 * where it is of the program; NULL where it is something else. */
const AstNode *fe_written(Lower *cx, const AstNode *node);
/* "var x: f32[2, 3] = ones" of ones((2, 3)); NULL of other text. */
const char *fe_fill_as_variable(Lower *cx, const char *name, const char *text);
/* What is written here for a name of NumPy, PyTorch or TensorFlow, of a module
 * ("np") or of any (NULL), as docs/reference.md has it; NULL: nothing. */
const char *fe_elsewhere_note(Lower *cx, const char *module, const char *name);
/* "(6,)" of the arguments "6", "(6, 4)" of "6, 4" or "(6, 4)"; what is not
 * written as a number may be a tuple: "(n)" of "n". */
const char *fe_tuple_text(Lower *cx, const char *items);
/* A hint (hint.h) with text for its $, arguments (or NULL) for its %, and the
 * name of a number that may be the loss for its @. */
const char *fe_filled(Lower *cx, const char *hint, const char *text,
                      const char *args);
/* "6, 4" of the call (6, 4) that stands behind loc; NULL without one. */
const char *fe_arguments_behind(Lower *cx, Loc loc);
/* The value of a name, also of a builtin; a name that is not there is an error
 * with the nearest one. */
FeValue *fe_lookup(Lower *cx, const char *name, Loc loc);
/* The same of the target of an assignment. */
FeValue *fe_lookup_target(Lower *cx, const char *name, Loc loc);
/* The name in scope that name may be a slip of, or NULL. */
const char *fe_nearest_member(Lower *cx, const FeScope *scope,
                              const char *name);
/* v, or POISON with a message when it is a nest or a string that is too large.
 * A nest doubles with every `t = (t, t)`, which is one value in memory and is
 * walked as many.  The value of every expression, and every value bound to a
 * name, passes through here, so that functions that walk nests may recurse. */
FeValue *fe_limit_size(Lower *cx, FeValue *v, Loc loc);
/* Changes the value of a mut so that it can be undone: back to where
 * cx->writes.len was mark. */
void fe_write(Lower *cx, FeBinding *b, FeValue *value);
void fe_undo_writes(Lower *cx, int mark);
/* The value of a field of a namespace, which what names ("strategy"). */
FeValue *fe_namespace_field(Lower *cx, const FeScope *space, const char *what,
                            const char *name, Loc loc);

#endif
