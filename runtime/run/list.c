/*
 * list.c - the devices that can be used here
 *
 * One line for each device of which a driver knows more than its kind, and one
 * for each other kind, of which there are as many as one names.
 */
#include "runtime/run/list.h"

#include "runtime/hal/registry/driver.h"

enum { COLUMN = 18 };

static void
add_line(Str *out, const char *name, const char *text)
{
    str_addf(out, "%-*s%s\n", COLUMN, name, text);
}

/* Device number index of the kind; false: there are no more. */
static bool
add_device(Arena *a, Str *out, const RtDriver *driver, int index)
{
    const char *name = ir_device_name(a, (IrDevice){driver->kind, index});
    Str text = str_new(a);
    bool there_is = false;
    Status st = driver->describe(name, index, &text, &there_is);
    if (st)
        add_line(out, ir_device_kinds[driver->kind].name, status_message(st));
    else if (there_is)
        add_line(out, name, str_text(&text));
    else if (index == 0)
        add_line(out, ir_device_kinds[driver->kind].name, "there is none");
    status_free(st);
    return there_is && !st;
}

static void
add_kind(Arena *a, Str *out, const RtDriver *driver)
{
    const IrDeviceKindInfo *info = &ir_device_kinds[driver->kind];
    int index = 0;
    if (driver->describe)
        while (index < info->max_devices && add_device(a, out, driver, index))
            index++;
    else
        add_line(out,
                 arena_printf(a, "%s:0-%d", info->name, info->max_devices - 1),
                 info->doc);
}

void
rt_print_devices(Arena *a, Str *out)
{
    for (int i = 0; i < NUM_DEVICE_KINDS; i++)
        add_kind(a, out, rt_driver_find((IrDeviceKind)i));
}
