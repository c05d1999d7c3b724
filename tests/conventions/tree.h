/*
 * tree.h - the files of the project, for tests about all of them
 */
#ifndef TFD_TESTS_TREE_H
#define TFD_TESTS_TREE_H

#include "ir/base/arena.h"
#include "ir/base/vec.h"

typedef VEC(const char *) TreePaths;

/* The C, flex, bison and table files below root's folders of sources, relative
 * to root and sorted; build directories and tests are left out. */
TreePaths tree_sources(Arena *a, const char *root);

#endif
