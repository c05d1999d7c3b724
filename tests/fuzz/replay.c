/*
 * replay.c - every file of a corpus through its target
 *
 *   replay TARGET [--expect LIST] DIR...
 *
 * Each file is a test, in the order of their names.  LIST has a line for each:
 * its name, and "valid" or words of the message that it is refused with, so
 * that a file that is refused for another reason, such as its version, is seen.
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

/* What the list has of a file; NULL: no list, or no line. */
static const char *
expected_of(Arena *a, const char *list, const char *name)
{
    const char *key = arena_printf(a, "\n%s: ", name);
    const char *line = list ? strstr(list, key) : NULL;
    if (!line)
        return NULL;
    line += strlen(key);
    return arena_strndup(a, line, strcspn(line, "\n"));
}

static bool
is_expected(const char *want, const char *have)
{
    if (!want || strcmp(want, "valid") == 0 || strcmp(have, "valid") == 0)
        return want && strcmp(want, have) == 0;
    return strstr(have, want) != NULL;
}

static bool
run_folder(const FuzzTarget *target, const char *folder, const char *list,
           int *number)
{
    bool good = true;
    Arena *a = arena_new(NULL, "replay");
    Paths paths = list_files(a, folder);
    for (int i = 0; i < paths.len; i++) {
        const char *name = strrchr(paths.data[i], '/') + 1;
        bool valid = run_file(target, paths.data[i]);
        const char *have = valid ? "valid" : fuzz_refusal();
        const char *want = expected_of(a, list, name);
        bool fits = !list || is_expected(want, have);
        if (!fits)
            printf("# expected: %s\n# it is:    %s\n",
                   want ? want : "no such file", have);
        printf("%sok %d - %s: %s\n", fits ? "" : "not ", ++*number, name,
               valid ? "valid" : "refused");
        fflush(stdout);
        good &= fits;
    }
    arena_release(a);
    return good;
}

/* The lines of a list, each with a line feed before it. */
static const char *
read_list(Arena *a, const char *path)
{
    char *text;
    size_t len;
    Status st = file_read(a, path, &text, &len);
    if (st)
        exit(status_report(st, "replay", stderr));
    return arena_printf(a, "\n%.*s", (int)len, text);
}

int
main(int argc, char **argv)
{
    int number = 0;
    bool has_list = argc > 4 && strcmp(argv[2], "--expect") == 0;
    bool good = true;
    if (argc < 3) {
        fprintf(stderr, "usage: replay TARGET [--expect LIST] DIR...\n");
        return 2;
    }
    Arena *a = arena_new(NULL, "replay");
    const FuzzTarget *target = fuzz_target(argv[1]);
    const char *list = has_list ? read_list(a, argv[3]) : NULL;
    for (int i = has_list ? 4 : 2; i < argc; i++)
        good &= run_folder(target, argv[i], list, &number);
    printf("1..%d\n", number);
    arena_release(a);
    return !good;
}
