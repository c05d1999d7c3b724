/*
 * sums.h - the order of sums (D2)
 *
 * The numbers of it that compiled code, passes and the interpreter have to
 * agree on: where they part, bits change.
 */
#ifndef TFD_IR_RULES_SUMS_H
#define TFD_IR_RULES_SUMS_H

enum {
    IR_STRIPES = 64,    /* lanes of a reduction */
    IR_CHUNK = 65536,   /* elements that are folded together */
    IR_SCAN_BLOCK = 64, /* elements of a running sum in a row */
    IR_K_BLOCK = 512    /* products of a contraction that are added in a row */
};

#endif
