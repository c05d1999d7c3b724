/*
 * hint.h - suggestions for an unknown name
 */
#ifndef TFD_FRONTEND_CONTEXT_HINT_H
#define TFD_FRONTEND_CONTEXT_HINT_H

/* Our name for one of NumPy, TensorFlow or C ("float32": "f32"), or NULL. */
const char *fe_hint_foreign(const char *name);

/* What is written in place of x.name of PyTorch, as a sentence, or NULL. */
const char *fe_hint_method(const char *name);

/* The module of the standard library that defines name, or NULL. */
const char *fe_hint_library(const char *name);

#endif
