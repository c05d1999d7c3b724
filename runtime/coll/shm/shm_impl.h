/*
 * shm_impl.h - what the sources of coll/shm share
 */
#ifndef TFD_RUNTIME_COLL_SHM_SHM_IMPL_H
#define TFD_RUNTIME_COLL_SHM_SHM_IMPL_H

#include "runtime/cluster/segments/segments.h"
#include "runtime/coll/local/local.h"

/* An address that all participants understand: so many bytes from where a
 * memory of the participant's device begins (ShmComm.begins).  In one process
 * there is one memory, which begins at 0. */
typedef struct ShmPlace {
    uint64_t offset;
    uint64_t memory; /* RtMemory.number */
} ShmPlace;

typedef struct ShmComm {
    RtLocalComm local;
    int memories_each; /* of a device, at most */
    /* For each participant, where its memories begin for this process. */
    uintptr_t *begins;
    /* Of all processes, by rank; NULL in one process. */
    RtSegments *arenas;
    RtSegments *meeting; /* one, of rank 0 */
} ShmComm;

/* A call of all processes: whether they can share memory; else why not. */
Status rt_shm_probe(const RtCommConfig *config, bool *can, Str *why) MUST_USE;
/* A call of all processes: maps the memory of all devices, and that in which
 * they meet. */
Status rt_shm_map(ShmComm *c) MUST_USE;
void rt_shm_unmap(ShmComm *c);

#endif
