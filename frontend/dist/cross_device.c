/*
 * cross_device.c - cross-device operations
 */
#include "frontend/dist/cross_device.h"
#include "frontend/dist/strategy.h"

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

/* ---- what is said of it -------------------------------------------------- */

/* Reads the value of a setting.  NULL on success, else the error as text. */
typedef const char *ReadSetting(Arena *a, const char *value,
                                FeCrossDevice *out);

static const char *
read_packs(Arena *a, const char *value, FeCrossDevice *out)
{
    char *end;
    long n = strtol(value, &end, 10);
    if (end == value || *end || n < 0 || n > IR_MAX_PACKS)
        return message_printf(a,
                              "\"packs=%s\" is no packs=N with N from 0 to %d",
                              value, IR_MAX_PACKS);
    out->packs = (int)n;
    return NULL;
}

static const char *
read_device(Arena *a, const char *value, FeCrossDevice *out)
{
    const char *wrong =
        fe_one_device(a, "reduce_to_device", "cpu:1", value, &out->device);
    out->has_device = !wrong;
    return wrong;
}

/* Sums have one order (D2), so there is one function to add with. */
static const char *
read_accumulation(Arena *a, const char *value, FeCrossDevice *out)
{
    (void)out;
    if (strcmp(value, "add_n") == 0)
        return NULL;
    return message_printf(
        a,
        "accumulation_fn is add_n, which adds in the order "
        "of all sums over replicas, not \"%s\": write another "
        "one in a merge, of local_results",
        value);
}

static const struct {
    const char *name;
    bool of_packs; /* whether it is for what makes packs, else for
                      reduction_to_one */
    ReadSetting *read;
} settings[] = {
    {"packs", true, read_packs},
    {"reduce_to_device", false, read_device},
    {"accumulation_fn", false, read_accumulation},
};
enum { NUM_SETTINGS = sizeof settings / sizeof *settings };

static bool
has_setting(IrAlgorithm algorithm, int i)
{
    return settings[i].of_packs ? ir_algorithm_has_packs(algorithm)
                                : algorithm == ALGORITHM_reduction_to_one;
}

/* Without any it was meant as a name. */
static const char *
no_setting(Arena *a, IrAlgorithm algorithm, const char *text)
{
    Str s = str_new(a);
    for (int i = 0; i < NUM_SETTINGS; i++)
        if (has_setting(algorithm, i))
            str_addf(&s, "%s%s=", s.len ? " or " : "", settings[i].name);
    const char *name = name_of(algorithm);
    if (!s.len)
        return unknown(a, arena_printf(a, "%s:%s", name, text));
    return message_printf(a, "behind \"%s:\" stands %s, not \"%s\"", name,
                          str_text(&s), text);
}

static const char *
read_setting(Arena *a, const char *text, FeCrossDevice *out)
{
    for (int i = 0; i < NUM_SETTINGS; i++) {
        size_t n = strlen(settings[i].name);
        if (strncmp(text, settings[i].name, n) || text[n] != '=')
            continue;
        if (has_setting(out->algorithm, i))
            return settings[i].read(a, text + n + 1, out);
        if (settings[i].of_packs)
            return message_printf(a, "%s makes no packs",
                                  name_of(out->algorithm));
    }
    return no_setting(a, out->algorithm, text);
}

/* Settings with commas between them. */
static const char *
read_settings(Arena *a, const char *text, FeCrossDevice *out)
{
    for (;; text++) {
        size_t n = strcspn(text, ",");
        const char *wrong = read_setting(a, arena_strndup(a, text, n), out);
        text += n;
        if (wrong || !*text)
            return wrong;
    }
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
    *out = (FeCrossDevice){.algorithm = (IrAlgorithm)algorithm, .packs = 1};
    return text[n] ? read_settings(a, text + n + 1, out) : NULL;
}
