/*
 * devices.c - lists of devices in words
 */
#include "runtime/hal/devices.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/vec.h"

enum { MAX_DEVICES = 1024 };

typedef VEC(const char *) Names;

/* Reads "cpu:3" or "cpu:0-3", up to a comma or the end. */
static bool
read_range(const char *text, long *first, long *last)
{
    char *end;
    if (strncmp(text, "cpu:", 4) != 0 || text[4] < '0' || text[4] > '9')
        return false;
    *first = *last = strtol(text + 4, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        *last = strtol(end + 1, &end, 10);
    return (!*end || *end == ',') && *first <= *last && *last < MAX_DEVICES;
}

static Status
add_device(Arena *a, Names *names, const char *name)
{
    for (int i = 0; i < names->len; i++) {
        if (strcmp(names->data[i], name) == 0)
            return status_new(STATUS_USAGE, "device %s is listed twice", name);
    }
    VEC_PUSH(a, *names, name);
    return OK;
}

Status
rt_parse_devices(Arena *a, const char *list, const char *const **names,
                 int *num)
{
    Names all = {0};
    for (const char *at = list;; at++) {
        long first, last;
        size_t len = strcspn(at, ",");
        if (!read_range(at, &first, &last))
            return status_new(STATUS_USAGE,
                              "there is no device \"%.*s\"; devices are cpu:0 "
                              "to cpu:%d, or cpu:0-3",
                              (int)len, at, MAX_DEVICES - 1);
        for (long i = first; i <= last; i++)
            TRY(add_device(a, &all, arena_printf(a, "cpu:%ld", i)));
        at += len;
        if (!*at)
            break;
    }
    *names = all.data;
    *num = all.len;
    return OK;
}
