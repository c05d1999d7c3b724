/*
 * needs_step.h - what only steps may do, found in main: where run is missing
 */
#ifndef TFD_FRONTEND_CONTEXT_NEEDS_STEP_H
#define TFD_FRONTEND_CONTEXT_NEEDS_STEP_H

#include "frontend/context/messages.h"

/* The call in main within which all this is lowered; NULL: main itself. */
const IrCall *fe_call_in_main(const Lower *cx);
/* The repair of a call in main that each replica should make: "write run
 * step(x, y), ...". */
const char *fe_run_note(Lower *cx, Loc call);
/* The name of a function as its call is written at loc: "opt.apply"; NULL if
 * that is not known. */
const char *fe_callee_text(Lower *cx, Loc call);
/* Whether the library, at loc, does for main what only steps may; then an error
 * says so of the program's own call of it. */
bool fe_refuse_library_in_main(Lower *cx, Loc loc);

#endif
