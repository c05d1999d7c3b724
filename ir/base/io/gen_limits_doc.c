/*
 * gen_limits_doc.c - docs/limits.md from the table (a program of the build)
 */
#include <stdio.h>
#include <string.h>

typedef struct Row {
    const char *name, *of, *message, *about;
    long long value, most;
} Row;

#define MESSAGE(text) text

static const Row rows[] = {
#define LIMIT(name, of, value, most, message, about)                           \
    {#name, #of, message, about, value, most},
#include "ir/base/io/limit.def"
#undef LIMIT
};

static const char about[] =
    "# Limits\n"
    "\n"
    "What is read or made has an end, so that no input keeps the machine busy or\n"
    "fills its memory: whatever exceeds one of these is refused with its message,\n"
    "within 2 seconds and 500 MB. `--limit NAME=VALUE` sets another value, up to the\n"
    "one in the last column (K, M and G are 1,000, a million and a billion); where\n"
    "there is none, formats and stacks are made for the value. A higher value costs\n"
    "time and memory in proportion. (Made from `ir/base/io/limit.def`.)\n";

static void
print_number(long long n)
{
    if (n >= 1000) {
        print_number(n / 1000);
        printf(",%03lld", n % 1000);
    } else {
        printf("%lld", n);
    }
}

/* The message with an ellipsis for the number. */
static void
print_message(const char *format)
{
    const char *place = strstr(format, "%lld");
    printf("%.*s…%s", (int)(place - format), format, place + strlen("%lld"));
}

static void
print_row(const Row *r)
{
    printf("| `%s` | ", r->name);
    print_number(r->value);
    printf(" | %s | ", r->about);
    print_message(r->message);
    printf(" | ");
    if (r->most)
        print_number(r->most);
    printf(" |\n");
}

static void
print_program(const char *title, const char *of)
{
    printf("\n## %s\n\n"
           "| name | value | of | message | at most |\n"
           "| --- | --- | --- | --- | --- |\n",
           title);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].of, of) == 0)
            print_row(&rows[i]);
}

int
main(void)
{
    fputs(about, stdout);
    print_program("tfdc", "tfdc");
    print_program("Both programs", "both");
    print_program("tfd-run", "tfd_run");
    return 0;
}
