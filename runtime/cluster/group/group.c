/*
 * group.c - what every group does
 */
#include "runtime/cluster/group/group.h"

#include "ir/base/memory.h"

Status
rt_group_check_part(int rank, uint64_t bytes)
{
    if (bytes <= MEMORY_MAX)
        return OK;
    return status_new(STATUS_MACHINE,
                      "rank %d has sent a length that no part of a gather has",
                      rank);
}
