/*
 * explain.h - the parts of --explain in files of their own
 */
#ifndef TFD_PASSES_EXPLAIN_H
#define TFD_PASSES_EXPLAIN_H

#include "ir/ir.h"

/* Appends every operation of m that has a reason: the number of each kind, the
 * bytes that they move each time they run, and why. */
void pass_explain_inserted(Str *out, const IrModule *m);
/* Appends by what rule runs in several processes choose the algorithms of m's
 * collectives; nothing where there are none. */
void pass_explain_processes(Str *out, const IrModule *m);
/* Appends the variables that each update on a server writes, and the bytes that
 * workers push for it; nothing where there are no servers. */
void pass_explain_servers(Str *out, const IrModule *m);

#endif
