/*
 * communication.c - the options of collectives
 */
#include "frontend/dist/communication.h"

#include <math.h>
#include <string.h>
#include "frontend/context/messages.h"
#include "frontend/emit/require_const.h"
#include "ir/device/device.h"
#include "ir/type_bounds.h"

#define EXAMPLE                                                                \
    "(bytes_per_pack: 1048576, timeout_seconds: 30.0, implementation: "        \
    "\"ring\")"

/* ---- one option ---------------------------------------------------------- */

typedef bool ReadOption(Lower *cx, FeValue *v, Loc loc, FeCommunication *out);

static bool
read_bytes(Lower *cx, FeValue *v, Loc loc, FeCommunication *out)
{
    int64_t n;
    if (!fe_require_int(cx, v, "bytes_per_pack", loc, &n))
        return false;
    if (n < 0) {
        fe_error(cx, loc,
                 "bytes_per_pack is a number from 0, which is no limit, not "
                 "%lld",
                 (long long)n);
        return false;
    }
    out->has_bytes = true;
    out->bytes_per_pack = n < IR_MAX_BYTES ? n : IR_MAX_BYTES;
    return true;
}

static bool
read_timeout(Lower *cx, FeValue *v, Loc loc, FeCommunication *out)
{
    if (v->kind == FE_NONE)
        return true;
    bool is_known = v->kind == FE_CONST && v->constant.scalar.dtype != DT_bool;
    double seconds =
        is_known ? scalar_cast(v->constant.scalar, DT_f64).f : -1.0;
    double most = (double)IR_MAX_TIMEOUT_MS / 1000;
    if (!(seconds >= 0.0 && seconds <= most)) {
        fe_error(cx, loc,
                 "timeout_seconds is a number from 0, which is none of its "
                 "own, to %g, not %s",
                 most,
                 is_known ? fe_format(cx, "%g", seconds) : fe_describe(cx, v));
        return false;
    }
    out->timeout_ms = (int64_t)ceil(seconds * 1000);
    return true;
}

static bool
read_implementation(Lower *cx, FeValue *v, Loc loc, FeCommunication *out)
{
    const char *text;
    if (!fe_require_text(cx, v, "implementation", loc, &text))
        return false;
    const char *wrong = fe_cross_device_parse(cx->arena, text, &out->cross);
    if (wrong)
        fe_error(cx, loc, "%s", wrong);
    return !wrong && fe_communication_fits(cx, &out->cross, loc);
}

static const char *const names[] = {"bytes_per_pack", "timeout_seconds",
                                    "implementation"};
static ReadOption *const readers[] = {read_bytes, read_timeout,
                                      read_implementation};
enum { NUM_NAMES = sizeof names / sizeof *names };

/* ---- all of them --------------------------------------------------------- */

static bool
read_option(Lower *cx, const char *name, FeValue *v, Loc loc,
            FeCommunication *out)
{
    for (int i = 0; i < NUM_NAMES; i++)
        if (!strcmp(names[i], name))
            return readers[i](cx, v, loc, out);
    const char *near = nearest_name(name, names, NUM_NAMES);
    fe_error_note(cx, loc,
                  near ? fe_format(cx, "did you mean %s?", near) : NULL,
                  "collectives have the options bytes_per_pack, "
                  "timeout_seconds and implementation, not \"%s\"",
                  name);
    return false;
}

bool
fe_communication_read(Lower *cx, FeValue *v, Loc loc, FeCommunication *out)
{
    *out = (FeCommunication){0};
    if (!v || v->kind == FE_NONE)
        return true;
    if (fe_value_has_poison(v))
        return false;
    if (v->kind != FE_NEST || !v->nest.names) {
        fe_error_note(cx, loc,
                      fe_format(cx, "write " EXAMPLE ", or some of it"),
                      "the options of a collective are a tuple of names, not "
                      "%s",
                      fe_describe(cx, v));
        return false;
    }
    for (int i = 0; i < v->nest.len; i++)
        if (!read_option(cx, v->nest.names[i], v->nest.items[i], loc, out))
            return false;
    return true;
}

void
fe_communication_set(IrOp *op, const FeCommunication *options)
{
    IrAlgorithm algorithm = options->cross.algorithm;
    bool packs = ir_attr_index(op->kind, A_packs) >= 0;
    if (algorithm != ALGORITHM_auto)
        ir_set_enum(op, A_implementation, algorithm);
    if (options->cross.root)
        ir_set_int(op, A_root, options->cross.root);
    if (packs && ir_algorithm_has_packs(algorithm))
        ir_set_int(op, A_packs, options->cross.packs);
    if (packs && options->has_bytes)
        ir_set_int(op, A_bytes_per_pack, options->bytes_per_pack);
    if (options->timeout_ms)
        ir_set_int(op, A_timeout_ms, options->timeout_ms);
}

bool
fe_find_device(Lower *cx, IrDevice device, int *replica)
{
    IrDevices devices = {0};
    (void)ir_devices_parse(cx->arena, cx->module->devices, &devices);
    for (int i = 0; i < devices.len; i++) {
        *replica = i;
        if (devices.data[i].kind == device.kind &&
            devices.data[i].index == device.index)
            return true;
    }
    return false;
}

void
fe_refuse_device(Lower *cx, IrDevice device, const char *what, Loc loc)
{
    fe_error_note(cx, loc, fe_format(cx, "name one of %s", cx->module->devices),
                  "%s is %s, which is none of the strategy's devices", what,
                  ir_device_name(cx->arena, device));
}

/* Two halves of the devices need an even number of them. */
bool
fe_communication_fits(Lower *cx, FeCrossDevice *cross, Loc loc)
{
    int num_devices = cx->module->num_replicas;
    if (cross->has_device && !fe_find_device(cx, cross->device, &cross->root)) {
        fe_refuse_device(cx, cross->device, "reduce_to_device", loc);
        return false;
    }
    if (cross->algorithm != ALGORITHM_hierarchical_copy || num_devices % 2 == 0)
        return true;
    fe_error(cx, loc,
             "hierarchical_copy needs an even number of devices, and there "
             "%s %d",
             num_devices == 1 ? "is" : "are", num_devices);
    return false;
}
