/*
 * states.c - what the workers of a job are asked for when it is saved
 */
#include "runtime/ps/input/states.h"

#include <string.h>
#include "runtime/ps/wire/wire.h"

RtPsSavedState *
rt_ps_state_of(RtPsStates *s, uint32_t worker)
{
    while ((uint32_t)s->list.len <= worker)
        VEC_PUSH(s->arena, s->list,
                 ((RtPsSavedState){.bytes = str_new(s->arena)}));
    return &s->list.data[worker];
}

void
rt_ps_state_set(RtPsStates *s, uint32_t worker, int64_t number,
                const char *bytes, size_t n)
{
    RtPsSavedState *state = rt_ps_state_of(s, worker);
    state->number = number;
    state->bytes.len = 0;
    str_addn(&state->bytes, bytes, n);
}

static void
state_archive(RtPsSavedState *state, RtArchive *ar)
{
    int64_t n = (int64_t)state->bytes.len;
    rt_archive_count(ar, &n, INT64_MAX, 1);
    char *bytes = rt_archive_place(ar, (size_t)n);
    if (bytes && ar->reads)
        str_addn(&state->bytes, bytes, (size_t)n);
    else if (bytes && n)
        memcpy(bytes, state->bytes.data, (size_t)n);
}

void
rt_ps_states_archive(RtPsStates *s, RtArchive *ar)
{
    int64_t num = s->list.len;
    rt_archive_count(ar, &num, RT_PS_MOST_TASKS, sizeof(int64_t));
    for (int64_t i = 0; i < num; i++)
        state_archive(rt_ps_state_of(s, (uint32_t)i), ar);
}
