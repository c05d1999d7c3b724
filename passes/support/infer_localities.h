/*
 * infer_localities.h - localities of device programs
 */
#ifndef TFD_PASSES_SUPPORT_INFER_LOCALITIES_H
#define TFD_PASSES_SUPPORT_INFER_LOCALITIES_H

#include "ir/ir.h"

/* Infers the localities of programs again, and of main's values that launches
 * define: for passes that replaced values. */
void pass_infer_localities(IrModule *m);

#endif
