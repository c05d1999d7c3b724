/*
 * restart.c - whether a job is started again, and in how many processes
 *
 * A job that trained is started again at once; what fails before that would
 * fail quickly again and again, so the delay doubles.
 */
#include "runtime/cluster/launch/restart.h"

static const double first_delay = 0.1, longest_delay = 10; /* seconds */

RtAttempt
rt_first_attempt(const RtRestartPolicy *policy)
{
    return (RtAttempt){.size = policy->size};
}

/* Of wrong input (1), a wrong command (2) and interrupts (from 128 on) another
 * attempt would end in the same way. */
static bool
may_pass(int exit_status)
{
    return exit_status > 2 && exit_status <= 128;
}

/* The largest smaller number of processes that may run the plan, or size. */
static int
fewer(const RtRestartPolicy *policy, int size)
{
    int n = size - 1;
    while (n >= policy->min_processes && n > 0 && policy->num_replicas % n != 0)
        n--;
    return n >= policy->min_processes && n > 0 ? n : size;
}

static double
longer(double delay)
{
    double next = delay > 0 ? 2 * delay : first_delay;
    return next < longest_delay ? next : longest_delay;
}

/* A failure that counts. */
static bool
restart(const RtRestartPolicy *policy, const RtAttempt *last, RtAttempt *next)
{
    if (last->restarts >= policy->restarts || !may_pass(last->exit_status))
        return false;
    next->kind = RT_ATTEMPT_RESTART;
    next->restarts = last->restarts + 1;
    if (last->joined)
        return true;
    next->size = last->size;
    next->checkpoints = last->checkpoints;
    next->delay = longer(last->delay);
    next->join_failures = last->join_failures + 1;
    if (policy->min_processes && next->join_failures >= RT_JOIN_FAILURES) {
        next->size = fewer(policy, last->size);
        next->join_failures = 0;
        next->checkpoints = 1;
    }
    return true;
}

/* It made its checkpoints, and stopped with another one. */
static bool
grow(const RtAttempt *last, RtAttempt *next)
{
    next->kind = RT_ATTEMPT_GROWS;
    next->smaller = last->size;
    next->checkpoints = last->checkpoints;
    return true;
}

/* The replacements could not be had. */
static bool
shrink(const RtAttempt *last, RtAttempt *next)
{
    next->kind = RT_ATTEMPT_SHRINKS;
    next->size = last->smaller;
    next->checkpoints = 2 * last->checkpoints;
    return true;
}

bool
rt_next_attempt(const RtRestartPolicy *policy, const RtAttempt *last,
                RtAttempt *next)
{
    *next = (RtAttempt){.number = last->number + 1,
                        .restarts = last->restarts,
                        .size = policy->size};
    if (last->interrupted)
        return false;
    if (last->stopped && last->exit_status > 128)
        return grow(last, next);
    if (last->smaller && !last->joined && may_pass(last->exit_status))
        return shrink(last, next);
    return restart(policy, last, next);
}

bool
rt_attempt_may_shrink(const RtRestartPolicy *policy, const RtAttempt *attempt)
{
    return attempt->kind == RT_ATTEMPT_GROWS ||
           (attempt->kind == RT_ATTEMPT_RESTART && policy->min_processes &&
            fewer(policy, attempt->size) < attempt->size);
}

bool
rt_attempt_asks(const RtRestartPolicy *policy, const RtAttempt *attempt,
                int checkpoints)
{
    return attempt->size < policy->size && !attempt->stopped &&
           checkpoints >= attempt->checkpoints;
}
