/*
 * print.h - inside ir/: pieces of the text
 */
#ifndef TFD_IR_TEXT_PRINT_H
#define TFD_IR_TEXT_PRINT_H

#include <string.h>
#include "ir/ir.h"
#include "ir/ptrmap.h"

void ir_print_scalar(Str *out, Scalar s);
void ir_print_hex(Str *out, const void *bytes, int64_t size);
/* Each text begins with a space, and is empty if there is no place. */
void ir_print_place(Str *out, IrPlace place);
/* The number of a source in the text of m, or -1. */
int ir_source_index(const IrModule *m, uint16_t file);
void ir_print_loc(Str *out, const IrModule *m, Loc loc);

#endif
