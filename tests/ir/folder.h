/*
 * folder.h - the .tir files of a folder, for tests that go through all
 */
#ifndef TFD_TESTS_IR_FOLDER_H
#define TFD_TESTS_IR_FOLDER_H

#include "ir/base/arena.h"
#include "ir/base/vec.h"

typedef struct TirFile {
    const char *name; /* in its folder */
    const char *text; /* terminated */
    size_t len;
} TirFile;

typedef VEC(TirFile) TirFiles;

/* In order of their names.  A file that cannot be read fails the test. */
TirFiles tir_files(Arena *a, const char *folder);

#endif
