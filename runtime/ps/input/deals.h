/*
 * deals.h - the coordinator's record of which worker has which file
 *
 * A pass of an iterator over the files of its source is a deal of its own.
 * Nothing of it is forgotten: a process that replaces a worker asks again from
 * the first file on.
 */
#ifndef TFD_RUNTIME_PS_INPUT_DEALS_H
#define TFD_RUNTIME_PS_INPUT_DEALS_H

#include "ir/base/vec.h"
#include "runtime/ps/wire/wire.h"

/* The files of one pass. */
typedef struct RtPsDeal {
    int64_t iter;
    uint64_t pass;
    int64_t num;          /* of files */
    const char *names;    /* their hash */
    VEC(uint32_t) owners; /* the workers that have files 0, 1, ... */
} RtPsDeal;

typedef struct RtPsDeals {
    Arena *arena;
    VEC(RtPsDeal) list;
    int64_t last; /* that was asked for */
} RtPsDeals;

typedef enum RtPsDealt {
    RT_DEAL_answered, /* d->file is set: d->num if none is left */
    RT_DEAL_ignored,  /* it asks for a file after one that it does not have */
    RT_DEAL_differs   /* its files are others than those of a worker before */
} RtPsDealt;

/* The file that a worker asks for. */
RtPsDealt rt_ps_deal(RtPsDeals *s, RtPsDealing *d);
/* All of it. */
void rt_ps_deals_archive(RtPsDeals *s, RtArchive *ar);

#endif
