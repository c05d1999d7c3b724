/*
 * gen_foreign.c - what is called otherwise elsewhere, as a table of the
 * compiler
 *
 *   gen_foreign builtins.def absent.txt nn.tfd optim.tfd ... >foreign.c
 *
 * Defines fe_foreign (frontend/context/foreign.h): a row for each name of
 * NumPy, PyTorch and TensorFlow that an entry of docs/reference.md says it is
 * found by, in lines "in: np.clip, torch.clamp" (tests/reference/README.md).
 * They stand below a row of builtins.def or a name of absent.txt, and above a
 * definition of the library.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1024 };

/* What the names of a line "in:" are of. */
typedef struct Entry {
    char ours[MAX_LINE];  /* how it is called here */
    char about[MAX_LINE]; /* of what is no call: a sentence; "": it is one */
    const char *module;   /* of the library, to be used; "": none */
} Entry;

static void
print_string(const char *text)
{
    putchar('"');
    for (; *text; text++)
        printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('"');
}

/* A row for each of "np.clip, torch.clamp". */
static void
print_rows(char *names, const Entry *of)
{
    for (char *name = strtok(names, ", \n"); name;
         name = strtok(NULL, ", \n")) {
        if (strcmp(name, "none") == 0 || strcmp(name, "*/") == 0)
            continue;
        printf("    {\"%s\", ", name);
        print_string(of->ours);
        printf(", ");
        print_string(of->about);
        printf(", \"%s\"},\n", of->module);
    }
}

/* The names of a line "in:"; NULL: it is another one. */
static char *
names_in(char *line)
{
    static const char *const marks[] = {
        "    /*: in: ", "        in: ", "#: in: ", "  in: "};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(line, marks[i], strlen(marks[i])) == 0)
            return line + strlen(marks[i]);
    return NULL;
}

/* The next cell of a row of builtins.def, without its quotes; at is after the
 * bracket or comma before it, and then after the one behind it. */
static void
read_cell(const char **at, char *out)
{
    const char *p = *at + strspn(*at, " ");
    bool is_text = *p == '"';
    for (p += is_text; *p && *p != (is_text ? '"' : ','); p++) {
        p += *p == '\\';
        *out++ = *p;
    }
    *out = '\0';
    p += is_text && *p;
    p += strspn(p, " ");
    *at = p + (*p == ',');
}

/* Whether a line of builtins.def is a row, and what that is called. */
static bool
read_row(const char *line, Entry *of)
{
    static const char *const kinds[] = {"OPERATION(", "BUILTIN(", "METHOD(",
                                        "VALUE(", "NOTATION("};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[MAX_LINE], second[MAX_LINE];
        const char *at = line + strlen(kinds[i]);
        if (strncmp(line, kinds[i], strlen(kinds[i])))
            continue;
        read_cell(&at, name);
        read_cell(&at, second);
        if (i < 3)
            snprintf(of->ours, sizeof of->ours, "%s%.200s(%.600s)",
                     i == 2 ? "dataset." : "", name, second);
        else
            snprintf(of->ours, sizeof of->ours, "%s", name);
        snprintf(of->about, sizeof of->about, "%.*s",
                 i < 3 ? 0 : (int)strcspn(second, ";"), second);
        return true;
    }
    return false;
}

/* Whether a line of the library is a definition: its signature. */
static bool
read_definition(const char *line, Entry *of)
{
    bool is_module = strncmp(line, "module ", 7) == 0;
    int depth = 0, n = 0;
    if (!is_module && strncmp(line, "fn ", 3))
        return false;
    const char *from = line + (is_module ? 7 : 3);
    while (from[n] && from[n] != '\n' && (depth || !strchr("={", from[n]))) {
        depth += from[n] == '(';
        depth -= from[n] == ')';
        n++;
        if (from[n - 1] == ')' && depth == 0)
            break;
    }
    while (n && from[n - 1] == ' ')
        n--;
    snprintf(of->ours, sizeof of->ours, "%.*s", n, from);
    return true;
}

static FILE *
open_or_exit(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        exit(1);
    }
    return f;
}

/* Names stand below what they are of. */
static void
print_builtins(const char *path)
{
    FILE *f = open_or_exit(path);
    char line[MAX_LINE];
    Entry of = {.module = ""};
    while (fgets(line, sizeof line, f)) {
        char *names = names_in(line);
        if (!read_row(line, &of) && names && *of.ours)
            print_rows(names, &of);
    }
    fclose(f);
}

/* A name at the left, below it a sentence, and then the names. */
static void
print_absent(const char *path)
{
    FILE *f = open_or_exit(path);
    char line[MAX_LINE];
    bool is_sentence = false;
    Entry of = {.ours = "Not here", .module = ""};
    while (fgets(line, sizeof line, f)) {
        char *names = names_in(line);
        if (names)
            print_rows(names, &of);
        else if (is_sentence)
            snprintf(of.about, sizeof of.about, "%.*s",
                     (int)strcspn(line + 2, "\n"), line + 2);
        is_sentence = line[0] != '#' && !isspace((unsigned char)line[0]);
    }
    fclose(f);
}

/* Names stand above what they are of. */
static void
print_library(const char *path)
{
    FILE *f = open_or_exit(path);
    char line[MAX_LINE], names[MAX_LINE] = "", module[64];
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    snprintf(module, sizeof module, "%.*s", (int)strcspn(file, "."), file);
    Entry of = {.module = module};
    while (fgets(line, sizeof line, f)) {
        char *found = names_in(line);
        if (found)
            snprintf(names, sizeof names, "%s", found);
        else if (read_definition(line, &of))
            print_rows(names, &of);
        if (!found && line[0] != '#')
            names[0] = '\0';
    }
    fclose(f);
}

int
main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    printf("/* Made by gen_foreign; do not edit. */\n"
           "#include \"frontend/context/foreign.h\"\n\n"
           "const FeForeign fe_foreign[] = {\n");
    print_builtins(argv[1]);
    print_absent(argv[2]);
    for (int i = 3; i < argc; i++)
        print_library(argv[i]);
    printf("    {0}};\n"
           "const int fe_foreign_len = sizeof fe_foreign / sizeof *fe_foreign "
           "- 1;\n");
    return 0;
}
