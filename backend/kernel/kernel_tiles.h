/*
 * kernel_tiles.h - which part of an array a part of the grid works on
 */
#ifndef TFD_BACKEND_KERNEL_KERNEL_TILES_H
#define TFD_BACKEND_KERNEL_KERNEL_TILES_H

#include "backend/kernel/kernel.h"

/* Whether the items of k, whose number is known, can be divided into that many
 * tiles, each a range of one index of the grid. */
bool be_kernel_has_tiles(const BeKernel *k, int64_t tiles);

/* Whether, besides, the items of each tile load and store no elements of an
 * array of k, an input or output, but those of the same tile. */
bool be_kernel_keeps_tiles(const BeKernel *k, const KArray *array,
                           int64_t tiles);

#endif
