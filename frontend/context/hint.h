/*
 * hint.h - suggestions for an unknown name
 */
#ifndef TFD_FRONTEND_CONTEXT_HINT_H
#define TFD_FRONTEND_CONTEXT_HINT_H

#include <stdbool.h>
#include "frontend/context/foreign.h"
#include "ir/base/arena.h"

/* Our name for one of NumPy, TensorFlow or C ("float32": "f32"), or NULL. */
const char *fe_hint_foreign(const char *name);

/* Whether programs elsewhere call a library by that name: "np". */
bool fe_hint_is_module(const char *name);

/* Our name for an argument of NumPy, PyTorch or Keras ("dim": "axis"), or
 * NULL. */
const char *fe_hint_argument(const char *name);

/* What has that name elsewhere: in the module ("tf", "tf.data.Dataset"), if
 * there is one in it, or any other.  NULL: nothing that docs/reference.md
 * knows. */
const FeForeign *fe_hint_elsewhere(const char *module, const char *name);

/* What is written in place of x.name(args) of PyTorch (args may be NULL: it is
 * not called), as a sentence, or NULL;
 * $ in it stands for x, @ for the loss, % for the arguments, (%) for a tuple of
 * them, # for what tells an optimizer that this is whole. */
const char *fe_hint_method(const char *name, const char *args);

/* What is written in place of a call of name, as a sentence, or NULL; $ in it
 * stands for the first argument. */
const char *fe_hint_call(const char *name);

/* The module of the standard library that defines name, or NULL. */
const char *fe_hint_library(const char *name);

/* The parameters of what the library defines by that name, "x, axis = -1"; NULL
 * if it defines none. */
const char *fe_hint_parameters(Arena *a, const char *name);

#endif
