/*
 * elsewhere.h - calls as NumPy, PyTorch and TensorFlow write them, as calls of
 * this language
 *
 * Arguments are texts: what has an unknown name is not evaluated.
 */
#ifndef TFD_FRONTEND_CONTEXT_ELSEWHERE_H
#define TFD_FRONTEND_CONTEXT_ELSEWHERE_H

#include "frontend/context/lower.h"

typedef struct FeElsewhere {
    const char *module; /* of module.name(args): "torch"; NULL without one */
    const char *name;
    const char *object; /* x of x.name(args); NULL: args has all of them */
    int rank;           /* of the first argument; -1: not known */
    const char *args;   /* "1, keepdim=True" */
} FeElsewhere;

/* The call that does here what that does, with its arguments, and behind it
 * what is to be known of it: "sum(x, axis = 1)".  NULL: nothing is known of
 * that name. */
const char *fe_call_here(Lower *cx, const FeElsewhere *call);

/* The same of the names alone that are called otherwise, or with other
 * arguments; NULL of those of which only the names of arguments differ. */
const char *fe_other_call_here(Lower *cx, const FeElsewhere *call);

/* text as an operand: in parentheses if it has operators. */
const char *fe_operand_text(Lower *cx, const char *text);

#endif
