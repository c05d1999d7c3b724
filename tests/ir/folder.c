/*
 * folder.c - the .tir files of a folder
 */
#include "tests/ir/folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
give_up(const char *path)
{
    perror(path);
    exit(99);
}

static TirFile
read_file(Arena *a, const char *folder, const char *name)
{
    const char *path = arena_printf(a, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        give_up(path);
    long size = ftell(f);
    char *text = arena_alloc(a, (size_t)size + 1);
    rewind(f);
    if (fread(text, 1, (size_t)size, f) != (size_t)size)
        give_up(path);
    fclose(f);
    return (TirFile){arena_strdup(a, name), text, (size_t)size};
}

static int
by_name(const void *x, const void *y)
{
    return strcmp(((const TirFile *)x)->name, ((const TirFile *)y)->name);
}

TirFiles
tir_files(Arena *a, const char *folder)
{
    TirFiles files = {0};
    DIR *dir = opendir(folder);
    if (!dir)
        give_up(folder);
    for (struct dirent *e; (e = readdir(dir));) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot && strcmp(dot, ".tir") == 0)
            VEC_PUSH(a, files, read_file(a, folder, e->d_name));
    }
    closedir(dir);
    if (files.len)
        qsort(files.data, (size_t)files.len, sizeof *files.data, by_name);
    return files;
}
