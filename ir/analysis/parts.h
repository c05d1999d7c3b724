/*
 * parts.h - what of a push goes to the server of a part
 */
#ifndef TFD_IR_ANALYSIS_PARTS_H
#define TFD_IR_ANALYSIS_PARTS_H

#include "ir/ir.h"

/* How an operand of a push is divided among the parts of the variable that the
 * update is of. */
typedef enum IrCut {
    CUT_NOTHING, /* each part gets all of it */
    CUT_IDS,     /* numbers of rows: a part gets those of its own rows, counted
                  * from its first */
    CUT_ENTRIES, /* what belongs to them, one behind the other as they are */
    CUT_ROWS     /* a row for each of the variable's */
} IrCut;

/* That of operand i of a push, or of a write that will be one: of an update
 * that is not of a part nothing is cut.  The operands are those that the update
 * takes, as verified. */
IrCut ir_push_cut(const IrFunc *update, const IrOp *push, int i);

/* Whether an update does nothing but give a variable the value that is pushed:
 * any rows of it can be set alone. */
bool ir_update_is_set(const IrFunc *update);

#endif
