/*
 * strategy.c - which strategy, on which devices
 *
 * The command line wins over the file; with neither, one device is the default
 * strategy and several are mirrored.  The devices of multi_worker_mirrored are
 * those of each worker, by their names there.  The properties are constants:
 * strategy.worker_devices.
 */
#include "frontend/dist/strategy.h"

#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/require_const.h"
#include "frontend/lower/call.h"
#include <string.h>
#include "frontend/dist/communication.h"
#include "ir/base/message.h"

/* The choice, and where it was made. */
typedef struct Choice {
    const char *name, *devices; /* or NULL */
    const char *cross;          /* cross_device_ops, or NULL */
    const char *parameters;     /* parameter_device, or NULL */
    FeValue *options;           /* communication_options, or NULL */
    bool has_workers;
    int64_t workers;
    Loc name_loc, devices_loc, cross_loc, options_loc, workers_loc;
    Loc parameters_loc;
} Choice;

/* ---- the declaration of the file ---------------------------------------- */

static void
read_declaration(Lower *cx, const AstNode *n, Choice *out)
{
    static const char *const names[] = {"devices", "cross_device_ops",
                                        "workers", "communication_options",
                                        "parameter_device"};
    FeArg *args[5];
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
    out->name_loc = out->devices_loc = out->workers_loc = n->loc;
    if (!fe_match_args(cx, &call, 5, names, args))
        return;
    if (args[0]) {
        out->devices_loc = args[0]->loc;
        fe_require_text(cx, args[0]->value, "the list of devices", args[0]->loc,
                        &out->devices);
    }
    if (args[1]) {
        out->cross_loc = args[1]->loc;
        fe_require_text(cx, args[1]->value, "cross_device_ops", args[1]->loc,
                        &out->cross);
    }
    if (args[3]) {
        out->options_loc = args[3]->loc;
        out->options = args[3]->value;
    }
    if (args[4]) {
        out->parameters_loc = args[4]->loc;
        fe_require_text(cx, args[4]->value, "parameter_device", args[4]->loc,
                        &out->parameters);
    }
    if (!args[2])
        return;
    out->workers_loc = args[2]->loc;
    out->has_workers =
        fe_require_int(cx, args[2]->value, "the number of workers",
                       args[2]->loc, &out->workers);
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

/* The list of worker number i, which has to be that of the first one. */
static void
check_list(Lower *cx, const Choice *c, int i, const IrDevices *devices,
           const IrDevices *first)
{
    const char *own = ir_devices_text(cx->arena, devices);
    const char *others = ir_devices_text(cx->arena, first);
    if (devices->len != first->len)
        fe_error(cx, error_loc(cx, c->devices_loc),
                 "worker %d has %d device%s, and worker 0 has %d: all workers "
                 "have equally many",
                 i, devices->len, devices->len == 1 ? "" : "s", first->len);
    else if (strcmp(own, others) != 0)
        fe_error_note(cx, error_loc(cx, c->devices_loc),
                      fe_format(cx, "name those of one worker: %s", others),
                      "worker %d has %s, and worker 0 has %s: devices have the "
                      "same names on all workers",
                      i, own, others);
}

/* The list at *text, which goes behind its ";"; NULL: it was the last one.
 * Returns what is wrong with it, or NULL. */
static const char *
next_list(Arena *a, const char **text, IrDevices *out)
{
    size_t len = strcspn(*text, ";");
    const char *list = arena_strndup(a, *text, len);
    *text = (*text)[len] ? *text + len + 1 : NULL;
    return ir_devices_parse(a, list, out);
}

const char *
fe_wrong_devices(Arena *a, const char *text)
{
    const char *wrong = NULL;
    while (text && !wrong) {
        IrDevices devices = {0};
        wrong = next_list(a, &text, &devices);
    }
    return wrong;
}

/* NULL: there is no such strategy. */
static const IrStrategyInfo *
find_strategy(const char *name)
{
    for (int i = 0; i < NUM_STRATEGIES; i++)
        if (strcmp(ir_strategy_names[i], name) == 0)
            return &ir_strategy_info[i];
    return NULL;
}

/* The devices of each worker: one list, or one for each of them, with ";"
 * between them.  Returns how many lists there are, 0 with a message. */
static int
choose_devices(Lower *cx, const Choice *c, IrDevices *out)
{
    const char *text = c->devices ? c->devices : "cpu:0";
    const IrStrategyInfo *info = c->name ? find_strategy(c->name) : NULL;
    int num = 0;
    for (; text; num++) {
        IrDevices devices = {0};
        const char *wrong = next_list(cx->arena, &text, &devices);
        if (wrong) {
            fe_error(cx, error_loc(cx, c->devices_loc), "%s", wrong);
            return 0;
        }
        if (num == 0)
            *out = devices;
        if (info && info->workers)
            check_list(cx, c, num, &devices, out);
    }
    return num;
}

/* The command line's, for which some of what the file says is not meant. */
static void
choose_name(Choice *c, const char *name)
{
    const IrStrategyInfo *info = find_strategy(name);
    c->name = name;
    c->name_loc = NO_LOC;
    c->has_workers &= info && info->workers;
    if (!info || !info->central)
        c->parameters = NULL;
}

static const char *
strategies_note(Lower *cx)
{
    Str s = str_new(cx->arena);
    for (int i = 0; i < NUM_STRATEGIES; i++)
        str_addf(&s, "%s%s",
                 i == 0                    ? "they are "
                 : i == NUM_STRATEGIES - 1 ? " and "
                                           : ", ",
                 ir_strategy_names[i]);
    return str_text(&s);
}

/* One that there is not is taken for mirrored, so that what follows is checked
 * as for any other. */
static IrStrategy
require_strategy(Lower *cx, const Choice *c)
{
    const IrStrategyInfo *info = find_strategy(c->name);
    if (info)
        return (IrStrategy)(info - ir_strategy_info);
    const char *near = nearest_name(c->name, ir_strategy_names, NUM_STRATEGIES);
    const char *note =
        near ? fe_format(cx, "did you mean %s?", near) : strategies_note(cx);
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

/* The number of workers, of which that many lists of devices were given. */
static int
choose_workers(Lower *cx, const Choice *c, int num_lists, int num_devices)
{
    int64_t n = c->has_workers ? c->workers : num_lists;
    Loc loc = c->has_workers ? c->workers_loc : c->devices_loc;
    bool several = ir_strategy_info[cx->module->strategy].workers;
    if (!several && (c->has_workers || num_lists > 1))
        fe_error_note(cx, error_loc(cx, loc),
                      num_lists > 1 ? "between devices stands a comma; \";\" "
                                      "is between the lists of workers"
                                    : "leave workers out",
                      "only the strategy multi_worker_mirrored has workers");
    else if (n < 1 || num_devices > IR_MAX_DEVICES / n)
        fe_error(cx, error_loc(cx, loc),
                 "a plan is for 1 to %d replicas, not for %lld workers with %d "
                 "device%s each",
                 IR_MAX_DEVICES, (long long)n, num_devices,
                 num_devices == 1 ? "" : "s");
    else if (num_lists > 1 && n != num_lists)
        fe_error(cx, error_loc(cx, loc),
                 "there are %lld workers, and lists of devices for %d",
                 (long long)n, num_lists);
    else if (several)
        return (int)n;
    return 1;
}

/* Whether replicas are combined at all: not where the strategy that is named
 * has one. */
static bool
check_combines(Lower *cx, Loc loc, const char *what)
{
    const IrStrategyInfo *info = &ir_strategy_info[cx->module->strategy];
    if (info->several || cx->strategy_is_implied)
        return true;
    fe_error_note(cx, error_loc(cx, loc), "leave it out",
                  "the strategy %s has one replica, so that no %s has an "
                  "effect",
                  info->name, what);
    return false;
}

static void
use_algorithm(IrModule *m, const FeCrossDevice *cross)
{
    if (cross->algorithm == ALGORITHM_auto)
        return;
    m->algorithm = cross->algorithm;
    m->packs = cross->packs;
    m->root = cross->root;
}

static void
choose_cross(Lower *cx, const Choice *c)
{
    FeCrossDevice cross;
    if (!c->cross ||
        !check_combines(cx, c->cross_loc, "cross-device operation"))
        return;
    Loc loc = error_loc(cx, c->cross_loc);
    const char *wrong = fe_cross_device_parse(cx->arena, c->cross, &cross);
    if (wrong)
        fe_error(cx, loc, "%s", wrong);
    else if (fe_communication_fits(cx, &cross, loc))
        use_algorithm(cx->module, &cross);
}

/* The implementation is a cross-device operation, too, which the command line
 * may name. */
static void
choose_options(Lower *cx, const Choice *c)
{
    FeCommunication options;
    if (!c->options ||
        !check_combines(cx, c->options_loc, "communication option") ||
        !fe_communication_read(cx, c->options, c->options_loc, &options))
        return;
    if (options.cross.algorithm && c->cross && c->cross_loc.line)
        fe_error_note(cx, c->options_loc, "leave one of them out",
                      "cross_device_ops says which implementation there is, "
                      "and so do the options");
    else if (!c->cross)
        use_algorithm(cx->module, &options.cross);
    if (options.has_bytes)
        cx->module->bytes_per_pack = options.bytes_per_pack;
    cx->module->timeout_ms = options.timeout_ms;
}

const char *
fe_one_device(Arena *a, const char *setting, const char *example,
              const char *text, IrDevice *out)
{
    IrDevices devices = {0};
    const char *wrong = ir_devices_parse(a, text, &devices);
    if (wrong)
        return wrong;
    if (devices.len != 1)
        return message_printf(a, "%s is one device, as %s, not \"%s\"", setting,
                              example, text);
    *out = devices.data[0];
    return NULL;
}

const char *
fe_parameter_device(Arena *a, const char *text, IrDevice *out)
{
    return fe_one_device(a, "parameter_device", "cpu:0", text, out);
}

/* Where central storage has its variables: on the device of a replica. */
static void
choose_home(Lower *cx, const Choice *c)
{
    IrDevice home;
    if (!c->parameters)
        return;
    if (!ir_strategy_info[cx->module->strategy].central) {
        fe_error(cx, error_loc(cx, c->parameters_loc),
                 "only the strategy central_storage has a parameter_device");
        return;
    }
    const char *wrong = fe_parameter_device(cx->arena, c->parameters, &home);
    if (wrong)
        fe_error(cx, error_loc(cx, c->parameters_loc), "%s", wrong);
    else if (!fe_find_device(cx, home, &cx->module->home))
        fe_refuse_device(cx, home, "parameter_device",
                         error_loc(cx, c->parameters_loc));
}

/* ---- properties --------------------------------------------------------- */

/* The names of n devices from the first one on. */
static FeValue *
device_tuple(Lower *cx, int first, int n, const IrDevices *devices)
{
    FeValues names = {0};
    for (int i = first; i < first + n && i < devices->len; i++) {
        const char *name = ir_device_name(cx->arena, devices->data[i]);
        VEC_PUSH(cx->arena, names, fe_value_text(cx->arena, name));
    }
    return fe_value_tuple(cx->arena, names.len, names.data);
}

static void
bind_properties(Lower *cx, const IrDevices *devices)
{
    const IrModule *m = cx->module;
    FeValue *space = fe_value_new(cx->arena, FE_NAMESPACE);
    FeScope *scope = fe_scope_new(cx, NULL, SCOPE_NAMESPACE);
    FeValue *names = device_tuple(cx, 0, devices->len, devices);
    const IrStrategyInfo *info = &ir_strategy_info[m->strategy];
    FeValue *yes = fe_value_bool(cx->arena, true);
    FeValue *no = fe_value_bool(cx->arena, false);
    const struct {
        const char *name;
        FeValue *value;
    } fields[] = {
        {"name", fe_value_text(cx->arena, info->name)},
        {"num_replicas", fe_value_int(cx->arena, m->num_replicas)},
        {"num_replicas_in_sync", fe_value_int(cx->arena, m->num_replicas)},
        {"num_workers", fe_value_int(cx->arena, m->num_workers)},
        {"worker_devices", names},
        {"parameter_devices",
         info->central ? device_tuple(cx, m->home, 1, devices) : names},
        {"should_checkpoint", yes},
        {"should_save_summary", yes},
        {"require_static_shapes", no},
        {"between_graph",
         info->central || info->workers || info->servers ? yes : no},
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
    if (cx->options->strategy)
        choose_name(&choice, cx->options->strategy);
    if (cx->options->num_workers) {
        choice.has_workers = true;
        choice.workers = cx->options->num_workers;
        choice.workers_loc = NO_LOC;
    }
    if (cx->options->devices) {
        choice.devices = cx->options->devices;
        choice.devices_loc = NO_LOC;
    }
    if (cx->options->cross) {
        choice.cross = cx->options->cross;
        choice.cross_loc = NO_LOC;
    }
    if (cx->options->parameters) {
        choice.parameters = cx->options->parameters;
        choice.parameters_loc = NO_LOC;
    }
    int num_lists = choose_devices(cx, &choice, &devices);
    cx->module->strategy = choose_strategy(cx, &choice, devices.len);
    cx->module->devices = ir_devices_text(cx->arena, &devices);
    cx->module->num_workers =
        num_lists ? choose_workers(cx, &choice, num_lists, devices.len) : 1;
    cx->module->num_replicas =
        devices.len ? devices.len * cx->module->num_workers : 1;
    choose_home(cx, &choice);
    choose_cross(cx, &choice);
    choose_options(cx, &choice);
    bind_properties(cx, &devices);
}
