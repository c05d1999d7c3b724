/*
 * gen_library.c - the standard library as C, to be part of the compiler
 *
 *   gen_library nn.tfd optim.tfd ... >library.c
 *
 * Defines fe_library (frontend/lib/library.h), a row for each file, in their
 * order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static FILE *
open_or_exit(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    return f;
}

/* As numbers: a string would be longer than C promises to read. */
static void
print_text(const char *path, int number)
{
    FILE *f = open_or_exit(path);
    printf("\nstatic const char text%d[] = {", number);
    int c, n = 0;
    for (; (c = getc(f)) != EOF; n++)
        printf("%s%d,", n % 16 ? " " : "\n    ", (signed char)c);
    printf("\n    0\n};\n");
    fclose(f);
}

int
main(int argc, char **argv)
{
    printf("/* Made by gen_library; do not edit. */\n"
           "#include \"frontend/lib/library.h\"\n");
    for (int i = 1; i < argc; i++)
        print_text(argv[i], i);
    printf("\nconst FeLibraryFile fe_library[] = {\n");
    for (int i = 1; i < argc; i++) {
        const char *name = base_name(argv[i]);
        printf("    {\"%.*s\", \"%s\", text%d, sizeof text%d - 1},\n",
               (int)strcspn(name, "."), name, name, i, i);
    }
    printf("};\nconst int fe_library_len = %d;\n", argc - 1);
    return 0;
}
