/*
 * strategy.c - which strategy, on which devices
 *
 * The command line wins over the file; with neither, one device is the default
 * strategy and several are mirrored.  The properties are constants:
 * strategy.worker_devices.
 */
#include "frontend/dist/strategy.h"

#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/require_const.h"
#include "frontend/lower/call.h"
#include <string.h>
#include "frontend/dist/cross_device.h"
#include "ir/device/device.h"

/* The choice, and where it was made. */
typedef struct Choice {
    const char *name, *devices; /* or NULL */
    const char *cross;          /* cross_device_ops, or NULL */
    Loc name_loc, devices_loc, cross_loc;
} Choice;

/* ---- the declaration of the file ---------------------------------------- */

static void
read_declaration(Lower *cx, const AstNode *n, Choice *out)
{
    static const char *const names[] = {"devices", "cross_device_ops"};
    FeArg *args[2];
    FeCall call = {.name = n->strategy.name, .loc = n->loc};
    call.num_args = n->strategy.args.len;
    call.args = NEW_ARRAY(cx->arena, FeArg, (size_t)call.num_args);
    for (int i = 0; i < call.num_args; i++) {
        const AstNode *arg = n->strategy.args.data[i];
        bool named = arg->kind == AST_NAMED;
        const AstNode *value = named ? arg->named.value : arg;
        call.args[i] = (FeArg){.name = named ? arg->named.name : NULL,
                               .value = fe_eval(cx, value),
                               .node = value,
                               .loc = value->loc,
                               .whole = arg->loc};
    }
    out->name = n->strategy.name;
    out->name_loc = out->devices_loc = n->loc;
    if (!fe_match_args(cx, &call, 2, names, args))
        return;
    if (args[0]) {
        out->devices_loc = args[0]->loc;
        fe_require_text(cx, args[0]->value, "the list of devices", args[0]->loc,
                        &out->devices);
    }
    if (!args[1])
        return;
    out->cross_loc = args[1]->loc;
    fe_require_text(cx, args[1]->value, "cross_device_ops", args[1]->loc,
                    &out->cross);
}

/* ---- choosing ----------------------------------------------------------- */

/* The place of an error; without one in the file it is the command line's. */
static Loc
error_loc(Lower *cx, Loc loc)
{
    if (!loc.line)
        diag_blame_usage(cx->diag);
    return loc;
}

static void
choose_devices(Lower *cx, const Choice *c, IrDevices *out)
{
    const char *text = c->devices ? c->devices : "cpu:0";
    const char *wrong = ir_devices_parse(cx->arena, text, out);
    if (wrong)
        fe_error(cx, error_loc(cx, c->devices_loc), "%s", wrong);
}

/* One that there is not is taken for mirrored, so that what follows is checked
 * as for any other. */
static IrStrategy
require_strategy(Lower *cx, const Choice *c)
{
    for (int i = 0; i < NUM_STRATEGIES; i++)
        if (strcmp(ir_strategy_names[i], c->name) == 0)
            return (IrStrategy)i;
    const char *near = nearest_name(c->name, ir_strategy_names, NUM_STRATEGIES);
    const char *note = near ? fe_format(cx, "did you mean %s?", near) : NULL;
    fe_error_note(cx, error_loc(cx, c->name_loc), note,
                  "there is no strategy \"%s\"", c->name);
    return STRATEGY_mirrored;
}

static IrStrategy
choose_strategy(Lower *cx, const Choice *c, int num_devices)
{
    cx->strategy_is_implied = !c->name;
    if (!c->name)
        return num_devices > 1 ? STRATEGY_mirrored : STRATEGY_default;
    IrStrategy strategy = require_strategy(cx, c);
    if (num_devices > 1 && !ir_strategy_info[strategy].several)
        fe_error(cx, error_loc(cx, c->devices_loc),
                 "the strategy %s is for one device, and "
                 "there are %d",
                 c->name, num_devices);
    return strategy;
}

/* Whether replicas are combined at all: not where the strategy that is named
 * has one. */
static bool
check_combines(Lower *cx, const Choice *c)
{
    const IrStrategyInfo *info = &ir_strategy_info[cx->module->strategy];
    if (info->several || cx->strategy_is_implied)
        return true;
    fe_error_note(cx, error_loc(cx, c->cross_loc), "leave it out",
                  "the strategy %s has one replica, so that no cross-device "
                  "operation has an effect",
                  info->name);
    return false;
}

/* Two halves of the devices need an even number of them. */
static void
choose_cross(Lower *cx, const Choice *c, int num_devices)
{
    FeCrossDevice cross;
    if (!c->cross || !check_combines(cx, c))
        return;
    const char *wrong = fe_cross_device_parse(cx->arena, c->cross, &cross);
    bool halves = !wrong && cross.algorithm == ALGORITHM_hierarchical_copy;
    if (wrong)
        fe_error(cx, error_loc(cx, c->cross_loc), "%s", wrong);
    else if (halves && num_devices % 2)
        fe_error(cx, error_loc(cx, c->cross_loc),
                 "hierarchical_copy needs an even number of devices, and there "
                 "%s %d",
                 num_devices == 1 ? "is" : "are", num_devices);
    else if (cross.algorithm != ALGORITHM_auto) {
        cx->module->algorithm = cross.algorithm;
        cx->module->packs = cross.packs;
    }
}

/* ---- properties --------------------------------------------------------- */

/* The names of the first n devices. */
static FeValue *
device_tuple(Lower *cx, int n, const IrDevices *devices)
{
    FeValues names = {0};
    for (int i = 0; i < n && i < devices->len; i++) {
        const char *name = ir_device_name(cx->arena, devices->data[i]);
        VEC_PUSH(cx->arena, names, fe_value_text(cx->arena, name));
    }
    return fe_value_tuple(cx->arena, names.len, names.data);
}

static void
bind_properties(Lower *cx, const IrDevices *devices)
{
    FeValue *space = fe_value_new(cx->arena, FE_NAMESPACE);
    FeScope *scope = fe_scope_new(cx, NULL, SCOPE_NAMESPACE);
    FeValue *names = device_tuple(cx, devices->len, devices);
    const IrStrategyInfo *info = &ir_strategy_info[cx->module->strategy];
    FeValue *yes = fe_value_bool(cx->arena, true);
    FeValue *no = fe_value_bool(cx->arena, false);
    const struct {
        const char *name;
        FeValue *value;
    } fields[] = {
        {"name", fe_value_text(cx->arena, info->name)},
        {"num_replicas", fe_value_int(cx->arena, devices->len)},
        {"num_replicas_in_sync", fe_value_int(cx->arena, devices->len)},
        {"worker_devices", names},
        {"parameter_devices",
         info->central ? device_tuple(cx, 1, devices) : names},
        {"should_checkpoint", yes},
        {"should_save_summary", yes},
        {"require_static_shapes", no},
        {"between_graph", info->central ? yes : no},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        fe_bind(cx, scope, intern(cx->names, fields[i].name), fields[i].value,
                NO_LOC);
    space->space = scope;
    fe_bind(cx, cx->builtins, intern(cx->names, "strategy"), space, NO_LOC);
}

void
fe_strategy(Lower *cx, const AstNode *decl)
{
    Choice choice = {0};
    IrDevices devices = {0};
    if (decl)
        read_declaration(cx, decl, &choice);
    if (cx->options->strategy) {
        choice.name = cx->options->strategy;
        choice.name_loc = NO_LOC;
    }
    if (cx->options->devices) {
        choice.devices = cx->options->devices;
        choice.devices_loc = NO_LOC;
    }
    if (cx->options->cross) {
        choice.cross = cx->options->cross;
        choice.cross_loc = NO_LOC;
    }
    choose_devices(cx, &choice, &devices);
    cx->module->strategy = choose_strategy(cx, &choice, devices.len);
    cx->module->devices = ir_devices_text(cx->arena, &devices);
    cx->module->num_replicas = devices.len ? devices.len : 1;
    choose_cross(cx, &choice, devices.len);
    bind_properties(cx, &devices);
}
