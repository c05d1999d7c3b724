/*
 * calls.h - the calls that operations are inlined for, as text and back
 *
 * The text of a module says where each operation stands in the sources, but not
 * for which calls: a function or layer has its operations once for each call.
 * This is a text of its own, so that dumps stay readable; a plan has both.
 *
 *   library 1 2                 sources that are part of the compiler
 *   call 0 3 7 22 9 train_step -
 *   call 1 0 31 5 20 Dense.call gpt.up
 *   ops 12x0 3x1 8x2
 *
 * Calls are numbered from 1 in this order: the number of the caller (0: none),
 * source, line, column and length of the call, function, layer.  The last line
 * has the number of the innermost call of each operation, in the order of the
 * text, with how many neighbours have the same (0: none, or not known).
 */
#ifndef TFD_IR_TEXT_CALLS_H
#define TFD_IR_TEXT_CALLS_H

#include "ir/ir.h"

void ir_print_calls(Str *out, IrModule *m);

/* Sets IrOp.calls of m's operations, and marks its sources of the library.
 * False, after having set any of them, when the text is not one of this module.
 */
bool ir_parse_calls(IrModule *m, const char *text, size_t len);

#endif
