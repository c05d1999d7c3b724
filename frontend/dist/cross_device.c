/*
 * cross_device.c - cross-device operations
 */
#include "frontend/dist/cross_device.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "ir/ir.h"

static const struct {
    const char *name;
    bool has_packs;
} rows[] = {
#define CROSS(name, packs, doc) {#name, packs},
#include "frontend/dist/cross_device.def"
#undef CROSS
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

static int
find_row(const char *name)
{
    for (int i = 0; i < NUM_ROWS; i++)
        if (!strcasecmp(rows[i].name, name))
            return i;
    return -1;
}

static const char *
unknown(Arena *a, const char *name)
{
    Str s = str_new(a);
    for (int i = 0; i < NUM_ROWS; i++)
        str_addf(&s, "%s%s", i ? ", " : "", rows[i].name);
    return message_printf(
        a,
        "there is no cross-device operation \"%s\": it is one "
        "of %s",
        name, str_text(&s));
}

/* Reads "packs=N". */
static const char *
read_packs(Arena *a, const char *text, int row, FeCrossDevice *out)
{
    char *end = NULL;
    const char *number = !strncmp(text, "packs=", 6) ? text + 6 : NULL;
    long n = number ? strtol(number, &end, 10) : -1;
    if (!number || end == number || *end || n < 0 || n > IR_MAX_PACKS)
        return message_printf(a, "\"%s\" is no packs=N with N from 0", text);
    if (!rows[row].has_packs)
        return message_printf(a, "%s makes no packs", rows[row].name);
    out->packs = (int)n;
    return NULL;
}

const char *
fe_cross_device_parse(Arena *a, const char *text, FeCrossDevice *out)
{
    size_t n = strcspn(text, ":");
    const char *name = arena_strndup(a, text, n);
    int row = find_row(name);
    if (row < 0)
        return unknown(a, name);
    *out = (FeCrossDevice){rows[row].name, 1};
    return text[n] ? read_packs(a, text + n + 1, row, out) : NULL;
}
