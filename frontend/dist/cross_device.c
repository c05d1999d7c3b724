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

#define NCCL_ALLREDUCE "nccl:allreduce"

/* As it is spelt in the option. */
static const char *
name_of(int algorithm)
{
    return algorithm == ALGORITHM_nccl_allreduce
               ? NCCL_ALLREDUCE
               : ir_words[WORDS_ALGORITHM][algorithm];
}

/* Its enumerator, or -1; the language asks for no case. */
static int
find_algorithm(const char *name)
{
    for (int i = 0; i < NUM_ALGORITHMS; i++)
        if (!strcasecmp(name_of(i), name))
            return i;
    return -1;
}

static const char *
unknown(Arena *a, const char *name)
{
    Str s = str_new(a);
    for (int i = 0; i < NUM_ALGORITHMS; i++)
        str_addf(&s, "%s%s", i ? ", " : "", name_of(i));
    return message_printf(
        a,
        "there is no cross-device operation \"%s\": it is one "
        "of %s",
        name, str_text(&s));
}

/* Reads "packs=N", which is behind the name of what has packs. */
static const char *
read_packs(Arena *a, const char *whole, const char *text, FeCrossDevice *out)
{
    char *end = NULL;
    const char *number = !strncmp(text, "packs=", 6) ? text + 6 : NULL;
    long n = number ? strtol(number, &end, 10) : -1;
    if (!number && !ir_algorithm_has_packs(out->algorithm))
        return unknown(a, whole);
    if (!number || end == number || *end || n < 0 || n > IR_MAX_PACKS)
        return message_printf(a, "\"%s\" is no packs=N with N from 0", text);
    if (!ir_algorithm_has_packs(out->algorithm))
        return message_printf(a, "%s makes no packs",
                              ir_words[WORDS_ALGORITHM][out->algorithm]);
    out->packs = (int)n;
    return NULL;
}

const char *
fe_cross_device_parse(Arena *a, const char *text, FeCrossDevice *out)
{
    size_t n =
        strcasecmp(text, NCCL_ALLREDUCE) ? strcspn(text, ":") : strlen(text);
    const char *name = arena_strndup(a, text, n);
    int algorithm = find_algorithm(name);
    if (algorithm < 0)
        return unknown(a, name);
    *out = (FeCrossDevice){(IrAlgorithm)algorithm, 1};
    return text[n] ? read_packs(a, text, text + n + 1, out) : NULL;
}
