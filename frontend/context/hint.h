/*
 * hint.h - what was meant by a name that is not there
 */
#ifndef TFD_FRONTEND_CONTEXT_HINT_H
#define TFD_FRONTEND_CONTEXT_HINT_H

/* What a word of NumPy, TensorFlow or C is called here ("float32": "f32"), or
 * NULL. */
const char *fe_hint_foreign(const char *name);

/* The module of the standard library that defines name, or NULL. */
const char *fe_hint_library(const char *name);

#endif
