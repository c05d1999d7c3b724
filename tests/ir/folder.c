/*
 * folder.c - the .tir files of a folder
 */
#include "tests/ir/folder.h"

#include "tests/unit/golden.h"

TirFiles
tir_files(Arena *a, const char *folder)
{
    TirFiles files = {0};
    Paths paths = golden_list(a, folder, ".tir");
    for (int i = 0; i < paths.len; i++) {
        TirFile f = {.name = golden_name(paths.data[i])};
        f.text = golden_read(a, paths.data[i], &f.len);
        VEC_PUSH(a, files, f);
    }
    return files;
}
