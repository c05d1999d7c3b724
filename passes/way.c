/*
 * way.c - how replicas are combined
 */
#include "passes/way.h"

#include <string.h>

static bool
is(const char *via, const char *name)
{
    return via && !strcmp(via, name);
}

Way
way_of(const IrModule *m)
{
    if (is(m->via, "nccl"))
        return (Way){"reduction_to_one", 0,
                     "NCCL does not reach devices of the CPU"};
    if (m->via && !is(m->via, "ring"))
        return (Way){m->via, m->packs, "the program asks for it"};
    if (m->via)
        return (Way){NULL, 0, "the program asks for a ring"};
    if (!strcmp(m->strategy, "central_storage"))
        return (Way){"reduction_to_one", 0,
                     "central_storage combines where its variables are"};
    return (Way){NULL, 0, "all devices share memory"};
}

Way
way_of_gather(const IrModule *m)
{
    Way w = way_of(m);
    if (is(w.via, "hierarchical_copy"))
        return (Way){"reduction_to_one", 0,
                     "hierarchical_copy does not gather"};
    return w;
}

const char *
way_name(const Way *w)
{
    return w->via ? w->via : "two_phase";
}
