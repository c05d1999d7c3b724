/*
 * infer_localities.h - where the values of device programs are
 */
#ifndef TFD_PASSES_SUPPORT_INFER_LOCALITIES_H
#define TFD_PASSES_SUPPORT_INFER_LOCALITIES_H

#include "ir/ir.h"

/* Infers anew where the values of programs are, and those of main that launches
 * give: for whoever put values in place of others. */
void pass_infer_localities(IrModule *m);

#endif
