/*
 * pack.h - shared by the files that pack A and B
 */
#ifndef TFD_BACKEND_GEMM_PACK_H
#define TFD_BACKEND_GEMM_PACK_H

#include "backend/gemm/gemm.h"

/* Packs one k, or `step` of them: the first has number `at` among the packed
 * ones. */
typedef struct Pack Pack;
typedef void PackProduct(Pack *p, Val at);

struct Pack {
    GemmCode *t;
    const GemmOperand *operand;
    PackProduct *pack;
    int step;       /* products that pack does at once */
    Val first;      /* element of the packed memory for the first product */
    int64_t stride; /* elements from product to product */
    Val memory;     /* NULL: pack finds the addresses by itself */
    Val to;         /* the address for the present product */
};

/* The last index of the products. */
const KVar *be_gemm_last_product(const GemmCode *t);
/* Whether its extent is a multiple of n. */
bool be_gemm_has_whole(const GemmCode *t, int n);

/* Emits the nodes of the contraction that compute the operand and vary along
 * the last index of the products, or do not. */
void be_gemm_emit_products(const Pack *p, bool inner);

/* Where product number `at` is packed; NULL: p's pack knows. */
Val be_gemm_first_address(const Pack *p, Val at);
/* Lets a loop over products carry it, */
void be_gemm_carry_address(Pack *p, BeLoop *l, Val to);
/* and gives it to the next round; `number` is that of the carried value. */
void be_gemm_next_address(const Pack *p, BeLoop *l, int number);

/* The words of an operand's loads where the index of a loop is 0: rounds differ
 * from them by that index alone, so the other terms are added up once. */
typedef struct PackWords {
    const KVar *along; /* NULL: the two indices of collapsed lanes */
    int num;
    const KIndex *of[4];
    Val words[4];
} PackWords;

/* Before a loop over the products or places of p, */
void be_gemm_find_words(const Pack *p, const KVar *along, PackWords *w);
/* in a round of it, */
void be_gemm_begin_words(const Pack *p, const PackWords *w, Val index);
/* and at the end of the round. */
void be_gemm_end_words(const Pack *p, const PackWords *w);

/* Packs the products begin .. end, in runs of the last index. */
void be_gemm_pack_products(Pack *p, Val begin, Val end);

/* Stores a vector of the operand at p's address. */
PackProduct be_gemm_pack_row;

/* Packs the lines along m of rows first .. end of a group, for all k. */
void be_gemm_pack_m_lines(GemmCode *t, Val first, Val end);

/* What follows a row of `count` packed products. */
typedef void EndRow(Pack *p, Val count);

/* Packs rows first .. end of A one after the other, with lanes along the
 * products; those beyond the last repeat it.  end_row may be NULL. */
void be_gemm_pack_each_row(GemmCode *t, Val first, Val end, Val begin, Val stop,
                           PackProduct *pack, EndRow *end_row);

/* The first element of packed column `at`, a multiple of lanes. */
typedef Val ColumnAt(GemmCode *t, Val at);

/* Packs columns first .. end of B, a multiple of the plan's lanes, in squares:
 * as many columns at once, with p->step lanes along the products.  p has its
 * pack and step, and its memory if it needs that. */
void be_gemm_pack_squares(Pack *p, ColumnAt *at, Val first, Val end, Val begin,
                          Val stop);

/* A mask for each vector of the tile that extends beyond `count` lanes. */
void be_gemm_set_masks(Emit *e, Val count);

#endif
