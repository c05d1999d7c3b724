/*
 * on_server.c - the server that a variable is on, by its clause on
 *
 * A server is named as a task is: "ps:1".  How many there are is known only
 * when a job starts, which checks it.
 */
#include <stdlib.h>
#include <string.h>
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/require_const.h"
#include "frontend/vars/vars.h"

/* -1: it is no server's name. */
static int64_t
server_number(const char *name)
{
    enum { MOST_DIGITS = 6 };
    const char *digits = name + strlen("ps:");
    if (strncmp(name, "ps:", strlen("ps:")) != 0)
        return -1;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > MOST_DIGITS || digits[n])
        return -1;
    int number = atoi(digits);
    return number < IR_MOST_SERVERS ? number : -1;
}

bool
fe_var_may_have(Lower *cx, const IrVar *v, const char *name, Loc loc)
{
    if (ir_strategy_info[cx->module->strategy].servers)
        return true;
    fe_error_note(cx, loc,
                  "leave it out: the whole variable is where a replica is",
                  "\"%s\" cannot have \"%s\": only the strategy "
                  "parameter_server has servers",
                  v->name, name);
    return false;
}

bool
fe_var_on_server(Lower *cx, IrVar *v, const AstNode *clause)
{
    const char *name;
    if (!clause)
        return true;
    if (!fe_var_may_have(cx, v, "on", clause->loc) ||
        !fe_require_text(cx, fe_eval(cx, clause), "the server of a variable",
                         clause->loc, &name))
        return false;
    int64_t number = server_number(name);
    if (number < 0)
        fe_error(cx, clause->loc, "a server is named as \"ps:0\", not \"%s\"",
                 name);
    else if (v->colocate)
        fe_error_note(cx, clause->loc, "write the clause there",
                      "\"%s\" is on the server of \"%s\", with which it is "
                      "colocated",
                      v->name, v->colocate);
    else
        v->server = number + 1;
    return v->server > 0;
}
