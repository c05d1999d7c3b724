/*
 * text.h - the IR as text and back
 */
#ifndef TFD_IR_TEXT_TEXT_H
#define TFD_IR_TEXT_TEXT_H

#include "ir/ir.h"

void ir_print_module(Str *out, const IrModule *m);
const char *ir_module_text(Arena *a, const IrModule *m); /* the same, in a */
void ir_print_func(Str *out, const IrFunc *fn);
void ir_print_op(Str *out, const IrOp *op); /* one line, for messages */

/* Reads text; errors go to d, and the result is NULL then. `file` is the
 * registered source of the text. */
IrModule *ir_parse(Arena *a, Intern *names, Diag *d, uint16_t file,
                   const char *text, size_t len);

#endif
