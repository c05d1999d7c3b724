/*
 * tree.c - the files of the project, for tests about all of them
 */
#include "tests/conventions/tree.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const folders[] = {"runtime", "ir", "frontend", "passes",
                                      "backend"};
static const char *const endings[] = {".c", ".h", ".l", ".y", ".def"};

/* nftw hands its visitor nothing of ours. */
static Arena *arena;
static size_t root_len;
static TreePaths paths;

static bool
is_source(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i]) == 0)
            return true;
    return false;
}

static int
visit(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)place;
    if (kind == FTW_F && is_source(path))
        VEC_PUSH(arena, paths, arena_strdup(arena, path + root_len + 1));
    return 0;
}

static int
compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

TreePaths
tree_sources(Arena *a, const char *root)
{
    arena = a;
    root_len = strlen(root);
    paths = (TreePaths){0};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        nftw(arena_printf(a, "%s/%s", root, folders[i]), visit, 16, FTW_PHYS);
    if (paths.len)
        qsort(paths.data, (size_t)paths.len, sizeof *paths.data, compare);
    return paths;
}
