/*
 * load.h - IR as text for the reference interpreter
 */
#ifndef TFD_TESTS_REF_LOAD_H
#define TFD_TESTS_REF_LOAD_H

#include "ir/ir.h"

/* The module that text is, in a.  If it is none, or one that the verifier
 * rejects: NULL, and *wrong says why. */
IrModule *ref_load(Arena *a, const char *text, const char **wrong);

#endif
