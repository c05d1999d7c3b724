/*
 * type_text.h - types and dimensions as text: "f32[n, 3] per_replica"
 *
 * The same text in dumps, in plans and in messages.  Symbols are printed by
 * their names in the module.
 */
#ifndef TFD_IR_TYPE_TEXT_H
#define TFD_IR_TYPE_TEXT_H

#include "ir/ir.h"

/* @w; in quotes where the name has other characters than those of names. */
void ir_print_name(Str *out, const char *name);
void ir_print_type(Str *out, const IrModule *m, const IrType *t);
void ir_print_dims(Str *out, const IrModule *m, int rank, const Dim *dims);

/* The same for a message, in the module's arena. */
const char *ir_type_text(const IrModule *m, const IrType *t);
const char *ir_dims_text(const IrModule *m, int rank, const Dim *dims);

#endif
