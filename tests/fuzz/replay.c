/*
 * replay.c - every file of a corpus through its target
 *
 *   replay TARGET DIR...
 *
 * Each file is a test, in the order of their names.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/io/file.h"
#include "ir/base/vec.h"
#include "tests/fuzz/fuzz.h"

typedef VEC(const char *) Paths;

static int
compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static Paths
list_files(Arena *a, const char *folder)
{
    Paths paths = {0};
    DIR *dir = opendir(folder);
    if (!dir) {
        fprintf(stderr, "replay: cannot open %s\n", folder);
        exit(2);
    }
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            VEC_PUSH(a, paths, arena_printf(a, "%s/%s", folder, e->d_name));
    closedir(dir);
    qsort(paths.data, (size_t)paths.len, sizeof *paths.data, compare);
    return paths;
}

/* A copy of exactly len bytes, so that a sanitizer finds reads beyond it. */
static bool
run_file(const FuzzTarget *target, const char *path)
{
    char *bytes;
    size_t len;
    Arena *a = arena_new(NULL, "replay");
    Status st = file_read(a, path, &bytes, &len);
    if (st)
        exit(status_report(st, "replay", stderr));
    char *exact = memcpy(malloc(len ? len : 1), bytes, len);
    bool valid = target->run(path, exact, len);
    free(exact);
    arena_release(a);
    return valid;
}

static void
run_folder(const FuzzTarget *target, const char *folder, int *number)
{
    Arena *a = arena_new(NULL, "replay");
    Paths paths = list_files(a, folder);
    for (int i = 0; i < paths.len; i++) {
        bool valid = run_file(target, paths.data[i]);
        printf("ok %d - %s: %s\n", ++*number, strrchr(paths.data[i], '/') + 1,
               valid ? "valid" : "refused");
        fflush(stdout);
    }
    arena_release(a);
}

int
main(int argc, char **argv)
{
    int number = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: replay TARGET DIR...\n");
        return 2;
    }
    const FuzzTarget *target = fuzz_target(argv[1]);
    for (int i = 2; i < argc; i++)
        run_folder(target, argv[i], &number);
    printf("1..%d\n", number);
    return 0;
}
