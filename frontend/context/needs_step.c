/*
 * needs_step.c - what only steps may do, found in main: where run is missing
 *
 * A function of the library that needs a step is not to be edited, as a repair
 * at its own line would ask: the program's call of it belongs into a step, or
 * it is in one that was called without run.
 */
#include "frontend/context/needs_step.h"

#include "frontend/context/dispatch.h"

#include <string.h>

const IrCall *
fe_call_in_main(const Lower *cx)
{
    const IrCall *call = cx->module->calls;
    while (call && call->caller)
        call = call->caller;
    return call;
}

const char *
fe_run_note(Lower *cx, Loc call)
{
    Loc begin = {call.line, call.col, 0, call.file};
    const char *text = fe_edit(cx, call, begin, "run ");
    return fe_format(cx,
                     "write %s, and each replica computes it with its own "
                     "value",
                     text ? text : "run before this call");
}

const char *
fe_callee_text(Lower *cx, Loc call)
{
    const char *text = fe_source(cx, call);
    size_t n = text ? strcspn(text, "(") : 0;
    return n ? fe_format(cx, "%.*s", (int)n, text) : NULL;
}

bool
fe_refuse_library_in_main(Lower *cx, Loc loc)
{
    if (cx->context != FE_CROSS || loc_is_same(fe_user_loc(cx, loc), loc))
        return false;
    FeOwn own = fe_own_call(cx);
    const char *text = fe_callee_text(cx, own.loc);
    const char *name = text ? text : "this function";
    Loc outer = fe_call_in_main(cx)->loc;
    bool is_in_function = !loc_is_same(outer, own.loc);
    fe_error_own(cx, &own, is_in_function ? outer : NO_LOC,
                 is_in_function
                     ? fe_run_note(cx, outer)
                     : fe_format(cx,
                                 "call it in a step: declare fn step(...) = "
                                 "%s(...), and write run step(...) here",
                                 name),
                 "%s needs a step, which each replica executes, and "
                 "this is main",
                 name);
    return true;
}
