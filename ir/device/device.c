/*
 * device.c - kinds of devices, and lists of devices
 */
#include "ir/device/device.h"

#include <string.h>
#include "ir/base/message.h"
#include "ir/base/str.h"

const IrDeviceKindInfo ir_device_kinds[NUM_DEVICE_KINDS] = {
#define DEVICE_KIND(name, max, doc)                                    \
    [DEVICE_##name] = {#name, max, doc},
#include "ir/device/kinds.def"
#undef DEVICE_KIND
};

/* How lists may name a kind. */
typedef struct KindName {
    const char *name;
    IrDeviceKind kind;
} KindName;

static const KindName kind_names[] = {
#define DEVICE_KIND(name, max, doc) {#name, DEVICE_##name},
#define DEVICE_ALIAS(alias, name) {#alias, DEVICE_##name},
#include "ir/device/kinds.def"
#undef DEVICE_ALIAS
#undef DEVICE_KIND
};

/* Reads "cpu:" or another kind at *at. */
static bool
read_kind(const char **at, IrDeviceKind *out)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++) {
        const char *name = kind_names[i].name;
        size_t n = strlen(name);
        if (strncmp(*at, name, n) == 0 && (*at)[n] == ':') {
            *at += n + 1;
            *out = kind_names[i].kind;
            return true;
        }
    }
    return false;
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
is_listed(const IrDevices *devices, const IrDevice *d)
{
    for (int i = 0; i < devices->len; i++)
        if (devices->data[i].kind == d->kind &&
            devices->data[i].index == d->index)
            return true;
    return false;
}

/* *asked counts all devices that the list names, which may be more than exist.
 */
static const char *
add_range(Arena *a, IrDeviceKind kind, int64_t first, int64_t last,
          IrDevices *out, int64_t *asked)
{
    const IrDeviceKindInfo *info = &ir_device_kinds[kind];
    if (last < first)
        return message_printf(a, "%s:%lld-%lld ends before it begins",
                              info->name, (long long)first, (long long)last);
    *asked += last - first + 1;
    if (*asked > IR_MAX_DEVICES)
        return NULL; /* reported when all are counted */
    if (last >= info->max_devices)
        return message_printf(a,
                              "%s:%lld is no device: their numbers are from 0 "
                              "to %d",
                              info->name, (long long)last,
                              info->max_devices - 1);
    for (int64_t i = first; i <= last; i++) {
        IrDevice d = {kind, (int)i};
        if (is_listed(out, &d))
            return message_printf(a, "%s:%lld is there twice", info->name,
                                  (long long)i);
        VEC_PUSH(a, *out, d);
    }
    return NULL;
}

static const char *
no_device(Arena *a, const char *part, int len)
{
    return message_printf(a, "\"%.*s\" is no device: cpu:0, cpu:0-3, cuda:0",
                          len, part);
}

/* Reads one part of the list, between commas. */
static const char *
read_part(Arena *a, const char **at, IrDevices *out, int64_t *asked)
{
    int64_t first, last;
    const char *part = *at;
    int len = (int)strcspn(part, ",");
    IrDeviceKind kind;
    bool is_known = read_kind(at, &kind);
    if (is_known && **at == '*')
        return message_printf(
            a, "%.*s depends on the machine: name the devices", len, part);
    if (!is_known || !read_index(at, &first))
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
ir_devices_parse(Arena *a, const char *text, IrDevices *out)
{
    int64_t asked = 0;
    const char *wrong = NULL;
    for (const char *at = text; !wrong; at++) {
        wrong = read_part(a, &at, out, &asked);
        if (!wrong && *at == '\0')
            break;
    }
    if (!wrong && asked > IR_MAX_DEVICES)
        return message_printf(a,
                              "a plan is for at most %d devices, and %lld are "
                              "asked for",
                              IR_MAX_DEVICES, (long long)asked);
    return wrong;
}

const char *
ir_devices_text(Arena *a, const IrDevices *devices)
{
    Str s = str_new(a);
    for (int i = 0, next; i < devices->len; i = next) {
        const IrDevice *first = &devices->data[i];
        next = i + 1;
        while (next < devices->len && devices->data[next].kind == first->kind &&
               devices->data[next].index == first->index + (next - i))
            next++;
        str_addf(&s, "%s%s:%d", i ? "," : "", ir_device_kinds[first->kind].name,
                 first->index);
        if (next > i + 1)
            str_addf(&s, "-%d", devices->data[next - 1].index);
    }
    return str_text(&s);
}

const char *
ir_device_name(Arena *a, IrDevice d)
{
    return arena_printf(a, "%s:%d", ir_device_kinds[d.kind].name, d.index);
}

bool
ir_devices_have(const char *text, IrDeviceKind kind)
{
    IrDeviceKind found;
    for (const char *at = text;; at++) {
        if (read_kind(&at, &found) && found == kind)
            return true;
        at = strchr(at, ',');
        if (!at)
            return false;
    }
}
