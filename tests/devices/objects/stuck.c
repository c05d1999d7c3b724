/*
 * stuck.c - wrong code for exec_test.c's program `one_sum`
 *
 * Replica 1 does not take part in the all_reduce that the others wait in.
 */
#include "ir/plan/abi.h"

int32_t tfd_main(TfdCall *call);
int32_t program(TfdCall *call) __asm__("p_main.1");

enum { LAUNCH = 0, START = 0, DONE = 1 }; /* operations by number */

int32_t
tfd_main(TfdCall *call)
{
    return call->hooks->op(call, LAUNCH);
}

int32_t
program(TfdCall *call)
{
    if (call->replica == 1)
        return 0;
    int32_t status = call->hooks->op(call, START);
    return status ? status : call->hooks->op(call, DONE);
}
