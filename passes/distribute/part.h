/*
 * part.h - updates of variables that lie in parts on several servers
 */
#ifndef TFD_PASSES_DISTRIBUTE_PART_H
#define TFD_PASSES_DISTRIBUTE_PART_H

#include "passes/support/pass.h"

/* Makes the updates of each variable in parts updates of a part, if all of them
 * may be: each row of what one writes hangs on that row of what it reads and is
 * given, or on what is pushed for the row.  A variable one of whose updates
 * needs more than that becomes whole, with a warning. */
void pass_part_updates(PassCx *cx, IrFunc *const *updates, int num);

#endif
