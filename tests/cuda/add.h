/*
 * add.h - the text of a kernel, for tests
 */
#ifndef TFD_TESTS_CUDA_ADD_H
#define TFD_TESTS_CUDA_ADD_H

/* Of a kernel k_add(items, n): adds n to each of 1000 items, of which each
 * thread takes some. */
extern const char direct_add[];

#endif
