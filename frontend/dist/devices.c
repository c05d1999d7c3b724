/*
 * devices.c - lists of devices
 */
#include "frontend/dist/devices.h"

#include <string.h>
#include "ir/base/message.h"
#include "ir/base/str.h"

static const char *const kinds[] = {"cpu", "gpu"};

/* Reads "cpu:" or "gpu:" at *at. */
static const char *
read_kind(const char **at)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i]);
        if (strncmp(*at, kinds[i], n) == 0 && (*at)[n] == ':') {
            *at += n + 1;
            return kinds[i];
        }
    }
    return NULL;
}

/* A number, which may be larger than a device's. */
static bool
read_index(const char **at, int64_t *index)
{
    enum { MOST_DIGITS = 12 };
    const char *p = *at;
    *index = 0;
    while (*p >= '0' && *p <= '9' && p - *at < MOST_DIGITS)
        *index = *index * 10 + (*p++ - '0');
    bool ok = p > *at && !(*p >= '0' && *p <= '9');
    *at = p;
    return ok;
}

static bool
is_listed(const FeDevices *devices, const FeDevice *d)
{
    for (int i = 0; i < devices->len; i++)
        if (devices->data[i].kind == d->kind &&
            devices->data[i].index == d->index)
            return true;
    return false;
}

/* *asked counts all that the list names, which may be more than there are. */
static const char *
add_range(Arena *a, const char *kind, int64_t first, int64_t last,
          FeDevices *out, int64_t *asked)
{
    if (last < first)
        return message_printf(a, "%s:%lld-%lld ends before it begins", kind,
                              (long long)first, (long long)last);
    *asked += last - first + 1;
    if (*asked > FE_MAX_DEVICES)
        return NULL; /* said when all are counted */
    if (last >= FE_MAX_DEVICES)
        return message_printf(a,
                              "%s:%lld is no device: their numbers are from 0 "
                              "to %d",
                              kind, (long long)last, FE_MAX_DEVICES - 1);
    for (int64_t i = first; i <= last; i++) {
        FeDevice d = {kind, (int)i};
        if (is_listed(out, &d))
            return message_printf(a, "%s:%lld is there twice", kind,
                                  (long long)i);
        VEC_PUSH(a, *out, d);
    }
    return NULL;
}

static const char *
no_device(Arena *a, const char *part, int len)
{
    return message_printf(a, "\"%.*s\" is no device: cpu:0, cpu:0-3", len,
                          part);
}

/* One of the parts between commas. */
static const char *
read_part(Arena *a, const char **at, FeDevices *out, int64_t *asked)
{
    int64_t first, last;
    const char *part = *at;
    int len = (int)strcspn(part, ",");
    const char *kind = read_kind(at);
    if (kind && **at == '*')
        return message_printf(
            a, "%.*s depends on the machine: name the devices", len, part);
    if (!kind || !read_index(at, &first))
        return no_device(a, part, len);
    last = first;
    if (**at == '-') {
        ++*at;
        if (!read_index(at, &last))
            return message_printf(a, "\"%.*s\" is no range: cpu:0-3", len,
                                  part);
    }
    if (**at != ',' && **at != '\0')
        return no_device(a, part, len);
    return add_range(a, kind, first, last, out, asked);
}

const char *
fe_devices_parse(Arena *a, const char *text, FeDevices *out)
{
    int64_t asked = 0;
    const char *wrong = NULL;
    for (const char *at = text; !wrong; at++) {
        wrong = read_part(a, &at, out, &asked);
        if (!wrong && *at == '\0')
            break;
    }
    if (!wrong && asked > FE_MAX_DEVICES)
        return message_printf(a,
                              "a plan is for at most %d devices, and %lld are "
                              "asked for",
                              FE_MAX_DEVICES, (long long)asked);
    return wrong;
}

const char *
fe_devices_text(Arena *a, const FeDevices *devices)
{
    Str s = str_new(a);
    for (int i = 0, next; i < devices->len; i = next) {
        const FeDevice *first = &devices->data[i];
        next = i + 1;
        while (next < devices->len && devices->data[next].kind == first->kind &&
               devices->data[next].index == first->index + (next - i))
            next++;
        str_addf(&s, "%s%s:%d", i ? "," : "", first->kind, first->index);
        if (next > i + 1)
            str_addf(&s, "-%d", devices->data[next - 1].index);
    }
    return str_text(&s);
}
