/*
 * scope.c - names and their bindings
 *
 * Scopes form a tree; a name means the last binding of the nearest scope that
 * has it.  Declarations of a file or module are bound before any of them is
 * evaluated, so that they may use each other in any order: a binding without a
 * value is evaluated when it is first asked for (fe_declare, in declare.c).
 *
 * Names are interned.  Most scopes have a few, which are compared one after the
 * other; one with many has an index beside them.
 */
#include "frontend/context/scope.h"

#include "frontend/context/dispatch.h"
#include "frontend/context/elsewhere.h"
#include "frontend/context/eval.h"
#include "frontend/context/hint.h"
#include "frontend/context/messages.h"
#include "frontend/context/steps.h"
#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

FeScope *
fe_scope_new(Lower *cx, FeScope *parent, FeScopeKind kind)
{
    FeScope *s = NEW(cx->arena, FeScope);
    s->parent = parent;
    s->kind = kind;
    s->prefix = parent ? parent->prefix : "";
    return s;
}

/* Names from which on a scope has an index. */
enum { FIRST_INDEXED = 16 };

static void
add_to_index(Lower *cx, FeScope *scope, FeBinding *b)
{
    int n = scope->names.len;
    if (n == FIRST_INDEXED) {
        scope->index = map_new(cx->arena);
        for (int i = 0; i < n; i++)
            map_set(scope->index, scope->names.data[i]->name,
                    scope->names.data[i]);
    } else if (n > FIRST_INDEXED) {
        map_set(scope->index, b->name, b);
    }
}

FeBinding *
fe_scope_find(const FeScope *scope, const char *name)
{
    assert(scope && name);
    if (scope->index)
        return map_get(scope->index, name);
    for (int i = scope->names.len - 1; i >= 0; i--)
        if (scope->names.data[i]->name == name)
            return scope->names.data[i];
    return NULL;
}

FeValue *
fe_limit_size(Lower *cx, FeValue *v, Loc loc)
{
    assert(v->kind < NUM_FE_KINDS);
    if (v->kind == FE_NEST && v->nest.depth > limit_value(LIMIT_nest_depth))
        return fe_report_limit(cx, loc, LIMIT_nest_depth);
    if (v->kind == FE_NEST && v->nest.leaves > limit_value(LIMIT_nest))
        return fe_report_limit(cx, loc, LIMIT_nest);
    if (v->kind == FE_STRING && v->text.len > limit_value(LIMIT_string))
        return fe_report_limit(cx, loc, LIMIT_string);
    return v;
}

static bool
are_one_file(const FeValue *a, const FeValue *b)
{
    return a && b && a->kind == FE_NAMESPACE && b->kind == FE_NAMESPACE &&
           a->space == b->space;
}

static void
refuse_second(Lower *cx, const FeScope *scope, const char *name,
              const FeValue *value, Loc loc)
{
    const FeBinding *first = fe_scope_find(scope, name);
    if (!first || (scope->kind != SCOPE_FILE && scope->kind != SCOPE_INSTANCE))
        return;
    fe_error(cx, loc, "\"%s\" is declared twice", name);
    diag_note(cx->diag, first->loc,
              are_one_file(first->value, value)
                  ? "the first time here: leave one of them out"
                  : "the first time here: give one of them another name");
}

FeBinding *
fe_bind(Lower *cx, FeScope *scope, const char *name, FeValue *value, Loc loc)
{
    assert(scope && name);
    FeBinding *b = NEW(cx->arena, FeBinding);
    b->name = name;
    b->value = value ? fe_limit_size(cx, value, loc) : NULL;
    b->scope = scope;
    b->serial = cx->num_bindings++;
    b->loc = loc;
    refuse_second(cx, scope, name, value, loc);
    if (strcmp(name, "_") != 0) {
        VEC_PUSH(cx->arena, scope->names, b);
        add_to_index(cx, scope, b);
    }
    return b;
}

FeBinding *
fe_hidden_mut(Lower *cx, const char *name, FeValue *value, Loc loc)
{
    FeScope *scope = fe_scope_new(cx, NULL, SCOPE_BLOCK);
    FeBinding *b = fe_bind(cx, scope, name, value, loc);
    b->is_mut = true;
    return b;
}

void
fe_write(Lower *cx, FeBinding *b, FeValue *value)
{
    assert(b->is_mut);
    assert(value);
    FeWrite w = {b, b->value};
    VEC_PUSH(cx->arena, cx->writes, w);
    b->value = value;
}

void
fe_undo_writes(Lower *cx, int mark)
{
    assert(mark >= 0 && mark <= cx->writes.len);
    while (cx->writes.len > mark) {
        FeWrite w = VEC_POP(cx->writes);
        w.binding->value = w.before;
    }
}

/* The modules that a file uses come after its own names. */
static void
find_used(const FeScope *scope, const char *name, FeFoundBinding *found)
{
    for (int i = 0; i < scope->used.len && !found->other; i++) {
        FeBinding *b = fe_scope_find(scope->used.data[i], name);
        if (b && found->binding)
            found->other = b;
        else if (b)
            found->binding = b;
    }
}

static FeFoundBinding
find_from(Lower *cx, const FeScope *scope, const char *name)
{
    FeFoundBinding found = {0};
    int64_t walked = 0;
    for (const FeScope *s = scope; s; s = s->parent, walked++) {
        found.binding = fe_scope_find(s, name);
        if (!found.binding)
            find_used(s, name, &found);
        if (found.binding)
            break;
        found.leaves_func |= s->kind == SCOPE_FUNC;
        found.leaves_merge |= s->kind == SCOPE_MERGE;
    }
    fe_count_walk(cx, walked);
    return found;
}

FeFoundBinding
fe_find_binding(Lower *cx, const char *name)
{
    return find_from(cx, cx->scope, name);
}

const AstNode *
fe_written(Lower *cx, const AstNode *node)
{
    const FeScope *scope = cx->scope;
    while (node && diag_is_library(cx->diag, node->loc.file)) {
        const FeBinding *b = node->kind == AST_NAME
                                 ? find_from(cx, scope, node->name.text).binding
                                 : NULL;
        node = b ? b->argument : NULL;
        scope = b ? b->caller : NULL;
    }
    return node;
}

/* ---- suggestions -------------------------------------------------------- */

typedef VEC(const char *) Names;

static void
add_names(Lower *cx, const FeScope *scope, Names *out)
{
    for (int i = 0; i < scope->names.len; i++)
        VEC_PUSH(cx->arena, *out, scope->names.data[i]->name);
}

static Names
names_around(Lower *cx)
{
    Names names = {0};
    for (const FeScope *s = cx->scope; s; s = s->parent) {
        add_names(cx, s, &names);
        for (int i = 0; i < s->used.len; i++)
            add_names(cx, s->used.data[i], &names);
    }
    return names;
}

static const char *
nearest_visible(Lower *cx, const char *name)
{
    Names names = names_around(cx);
    int num_builtins;
    const char *const *builtins = fe_builtin_names(&num_builtins);
    for (int i = 0; i < num_builtins; i++)
        VEC_PUSH(cx->arena, names, builtins[i]);
    return nearest_name(name, names.data, names.len);
}

/* A local that is a number and is known when the program runs: the loss, most
 * often.  NULL without one. */
static const FeBinding *
find_loss(Lower *cx)
{
    for (const FeScope *s = cx->scope; s && s->kind != SCOPE_FILE;
         s = s->parent) {
        for (int i = s->names.len - 1; i >= 0; i--) {
            const FeValue *v = s->names.data[i]->value;
            if (v && v->kind == FE_TENSOR && v->tensor &&
                v->tensor->type.rank == 0 &&
                dtype_is_float(v->tensor->type.dtype))
                return s->names.data[i];
        }
    }
    return NULL;
}

/* Whether the $ at that place of a hint is an argument, and no operand: in
 * "log($)", not in "$ ** 2". */
static bool
is_argument(const char *hint, const char *at)
{
    return at > hint && at[1] && strchr("( {", at[-1]) && strchr(",)}", at[1]);
}

const char *
fe_filled(Lower *cx, const char *hint, const char *text, const char *args)
{
    Str s = str_new(cx->arena);
    const char *start = hint;
    const FeBinding *loss = find_loss(cx);
    bool is_whole = loss && fe_locality_of(cx, loss->value) < LOCAL_PER_REPLICA;
    for (; *hint; hint++) {
        if (*hint == '$')
            str_add(&s, is_argument(start, hint) ? text
                                                 : fe_operand_text(cx, text));
        else if (strncmp(hint, "(%)", 3) == 0) {
            str_add(&s, fe_tuple_text(cx, args && *args ? args : "..."));
            hint += 2;
        } else if (*hint == '%')
            str_add(&s, args ? args : "...");
        else if (*hint == '@')
            str_add(&s, loss ? loss->name : "loss");
        else if (*hint == '#')
            str_add(&s, is_whole ? ", aggregated = true" : "");
        else
            str_addc(&s, *hint);
    }
    return str_text(&s);
}

/* The arguments of the call that begins text, "(3, 4)": "3, 4".  NULL if none
 * does. */
static const char *
arguments_in(Lower *cx, const char *text)
{
    int depth = 0, n = 0;
    if (!text || *text != '(')
        return NULL;
    for (; text[n]; n++) {
        depth += text[n] == '(';
        depth -= text[n] == ')';
        if (depth == 0)
            return fe_format(cx, "%.*s", n - 1, text + 1);
    }
    return NULL;
}

const char *
fe_tuple_text(Lower *cx, const char *items)
{
    const char *within = arguments_in(cx, items);
    if (within && strlen(within) + 2 == strlen(items))
        return items;
    bool is_number = strspn(items, "-0123456789") == strlen(items);
    return fe_format(cx, is_number ? "(%s,)" : "(%s)", items);
}

const char *
fe_arguments_behind(Lower *cx, Loc loc)
{
    Loc behind = {loc.line, loc.col + loc.len, 0, loc.file};
    return arguments_in(cx, fe_line_from(cx, behind));
}

static int
name_length(const char *text)
{
    return (int)strspn(text, "abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
}

const char *
fe_fill_as_variable(Lower *cx, const char *name, const char *text)
{
    int n = name_length(text);
    const char *filler = fe_format(cx, "%.*s", n, text);
    const FeBuiltin *b = fe_builtin_find(filler);
    const char *dims = arguments_in(cx, text + n);
    if (dims && *dims == '(')
        dims = arguments_in(cx, dims);
    int len = dims ? (int)strlen(dims) : 0;
    if (len && dims[len - 1] == ',')
        len--; /* of (3,) */
    if (!b || !fe_builtin_fills(b) || !len ||
        strspn(dims, "0123456789, ") < (size_t)len)
        return NULL;
    return fe_format(cx, "var %s: f32[%.*s] = %s", name, len, dims, filler);
}

const char *
fe_elsewhere_note(Lower *cx, const char *module, const char *name)
{
    const FeForeign *f = fe_hint_elsewhere(module, name);
    if (!f)
        return NULL;
    if (*f->about)
        return fe_format(cx, "docs/reference.md has %s at \"%s\": %s",
                         f->theirs, f->ours, f->about);
    return *f->module ? fe_format(cx, "%s is %s here, of use %s", f->theirs,
                                  f->ours, f->module)
                      : fe_format(cx, "%s is %s here", f->theirs, f->ours);
}

/* Of the value that a name at the beginning of arguments has; -1: not known. */
static int
rank_of_first(Lower *cx, const char *args)
{
    int n = name_length(args);
    const char *name = intern(cx->names, fe_format(cx, "%.*s", n, args));
    const FeBinding *b = n && (!args[n] || args[n] == ',')
                             ? fe_find_binding(cx, name).binding
                             : NULL;
    const FeValue *v = b ? b->value : NULL;
    if (v && v->kind == FE_TENSOR)
        return v->tensor->type.rank;
    return v && v->kind == FE_VAR ? v->var->type.rank : -1;
}

/* What is written here for module.name(args); NULL: nothing is known. */
static const char *
module_call(Lower *cx, const char *module, const char *name, const char *args)
{
    FeElsewhere call = {.module = module,
                        .name = name,
                        .rank = rank_of_first(cx, args),
                        .args = args};
    return fe_call_here(cx, &call);
}

/* The same of a name without a module, where more than names differs. */
static const char *
name_call(Lower *cx, const char *name, const char *args)
{
    FeElsewhere call = {
        .name = name, .rank = rank_of_first(cx, args), .args = args};
    const char *here = fe_other_call_here(cx, &call);
    return here ? fe_format(cx, "%swrite %s",
                            cx->block ? "" : "in main or in a function ", here)
                : NULL;
}

/* What is written in place of a call of a name that is unknown (calls.def);
 * args are those of the call, or NULL.  NULL: that is not known. */
static const char *
call_note(Lower *cx, const char *name, const char *args)
{
    const char *call = fe_hint_call(name);
    return call ? fe_filled(cx, call, args ? args : "x", args) : NULL;
}

/* Of torch.zeros(3): that name without its module, as a variable where it is
 * declared.  rest is the line from the "." on. */
static const char *
module_note(Lower *cx, const char *module, const char *rest)
{
    int n = rest && *rest == '.' ? name_length(rest + 1) : 0;
    for (; n && rest[1 + n] == '.'; n = name_length(rest + 1))
        rest += 1 + n; /* of tf.nn.relu, the last one */
    const char *name = n ? fe_format(cx, "%.*s", n, rest + 1) : "";
    const char *theirs_name = name;
    const char *args = n ? arguments_in(cx, rest + 1 + n) : NULL;
    const FeBuiltin *b = n ? fe_builtin_find(name) : NULL;
    if (!b && !fe_hint_library(name) && !fe_hint_call(name) &&
        fe_hint_foreign(name)) {
        name = fe_hint_foreign(name);
        b = fe_builtin_find(name);
    }
    const char *filled = b && args && !cx->block && cx->path
                             ? fe_fill_as_variable(cx, cx->path, rest + 1)
                             : NULL;
    if (filled)
        return fe_format(cx,
                         "names have no module before them, and a tensor that "
                         "is declared is a variable: %s",
                         filled);
    if (strcmp(module, "self") == 0)
        return fe_format(cx, "members are named without self: write %s%s%s%s",
                         name, args ? "(" : "", args ? args : "",
                         args ? ")" : "");
    const char *call = call_note(cx, name, args);
    if (call)
        return call;
    const char *here = args ? module_call(cx, module, theirs_name, args) : NULL;
    if (here)
        return fe_format(cx, "names have no module before them: write %s",
                         here);
    if (b || fe_hint_library(name))
        return fe_format(cx, "names have no module before them: write %s%s%s%s",
                         name, args ? "(" : "", args ? args : "",
                         args ? ")" : "");
    DType t;
    if (!args && dtype_by_name(name, &t))
        return fe_format(cx, "names have no module before them: write %s",
                         name);
    const char *theirs = n ? fe_elsewhere_note(cx, module, name) : NULL;
    return theirs ? theirs
                  : fe_format(cx,
                              "names have no module before them, and are in "
                              "docs/reference.md by those of %s, too",
                              module);
}

/* The length of b where a line goes on with .b(: what is before it is a module
 * elsewhere; else 0. */
static int
called_member(const char *rest)
{
    int n = rest && *rest == '.' ? name_length(rest + 1) : 0;
    return n && rest[1 + n] == '(' ? n : 0;
}

/* What is written in place of such a call, or NULL. */
static const char *
member_call_note(Lower *cx, const char *rest, int n)
{
    return call_note(cx, fe_format(cx, "%.*s", n, rest + 1),
                     arguments_in(cx, rest + 1 + n));
}

/* What is declared as name, by how it is used: a.b has a field. */
static const char *
declared_note(Lower *cx, const char *name, const char *rest)
{
    int n = rest && *rest == '.' ? name_length(rest + 1) : 0;
    bool is_field = n && (rest[1] < '0' || rest[1] > '9') &&
                    !(rest[1 + n] && strchr(".[(", rest[1 + n]));
    const char *value =
        is_field ? fe_format(cx, "(%.*s: 0.0)", n, rest + 1) : "0.0";
    return fe_format(cx, "declare it in a line before: let %s = %s", name,
                     value);
}

/* Our name for one elsewhere; what is a layer there, ReLU(), may be a function
 * here.  args are those of the call, or NULL. */
static const char *
ours_note(Lower *cx, const char *theirs, const char *ours, const char *args)
{
    bool is_function = isupper((unsigned char)theirs[0]) &&
                       islower((unsigned char)ours[0]) && args && !*args;
    return is_function
               ? fe_format(cx, "write %s without (): it is a function", ours)
               : fe_format(cx, "did you mean \"%s\"?", ours);
}

/* rest is the line behind the name. */
static const char *
name_note(Lower *cx, const char *name, const char *rest)
{
    const char *ours = fe_hint_foreign(name);
    const char *library = fe_hint_library(name);
    const char *args = arguments_in(cx, rest);
    if (library)
        return fe_format(cx, "it is in the standard library: use %s", library);
    if (fe_hint_is_module(name))
        return module_note(cx, name, rest);
    const char *call = call_note(cx, name, args);
    if (call) {
        bool is_computed = strncmp(call, "write clip(", 11) == 0;
        return !cx->block && is_computed
                   ? fe_format(cx, "in main or in a function %s", call)
                   : call;
    }
    const char *here = args ? name_call(cx, name, args) : NULL;
    if (here)
        return here;
    const char *near = ours ? ours : nearest_visible(cx, name);
    bool is_it = ours || (near && strcasecmp(near, name) == 0);
    const char *theirs = is_it ? NULL : fe_elsewhere_note(cx, NULL, name);
    if (theirs && (args || !near))
        return theirs;
    if (near)
        return ours_note(cx, name, near, args);
    int member = called_member(rest);
    if (member)
        return member_call_note(cx, rest, member);
    return args ? NULL : declared_note(cx, name, rest);
}

/* Whether it is no function or module. */
static bool
may_be_assigned(Lower *cx, const char *name)
{
    const FeBinding *b = fe_find_binding(cx, intern(cx->names, name)).binding;
    const FeValue *v = b ? b->value : NULL;
    return v && v->kind != FE_MODULE && v->kind != FE_FUNC;
}

/* Nothing builtin is assigned to. */
static const char *
target_note(Lower *cx, const char *name)
{
    Names names = names_around(cx);
    const char *near = nearest_name(name, names.data, names.len);
    return near && may_be_assigned(cx, near)
               ? fe_format(cx, "did you mean \"%s\"?", near)
               : fe_format(cx, "declare it: mut %s = ...", name);
}

static FeValue *
unknown_name(Lower *cx, const char *name, bool is_target, Loc loc)
{
    Loc behind = {loc.line, loc.col + loc.len, 0, loc.file};
    const char *note = !fe_may_suggest(cx) ? NULL
                       : is_target
                           ? target_note(cx, name)
                           : name_note(cx, name, fe_line_from(cx, behind));
    return fe_error_note(cx, loc, note, "there is no \"%s\" here", name);
}

/* ---- the value of a name ------------------------------------------------ */

static FeValue *
builtin(Lower *cx, const char *name, Loc loc)
{
    FeValue *v = fe_builtin_value(cx, name, loc);
    if (v)
        return v;
    const FeBuiltin *b = fe_builtin_find(name);
    if (b) {
        v = fe_value_new(cx->arena, FE_BUILTIN);
        v->builtin = b;
        return v;
    }
    DType t;
    if (fe_dtype_by_name(cx, name, &t))
        return fe_value_type(cx->arena, ir_type_scalar(t, LOCAL_HOST));
    return NULL;
}

/* A variable itself is visible everywhere, whatever a read of it would be. */
static bool
is_per_replica(Lower *cx, FeValue *v)
{
    return v->kind != FE_VAR && fe_locality_of(cx, v) == LOCAL_PER_REPLICA;
}

static FeValue *
look_up(Lower *cx, const char *name, bool is_target, Loc loc)
{
    FeFoundBinding found = fe_find_binding(cx, name);
    if (!found.binding) {
        FeValue *v = builtin(cx, name, loc);
        return v ? v : unknown_name(cx, name, is_target, loc);
    }
    if (found.other)
        return fe_error_note(
            cx, loc,
            fe_format(cx,
                      "write the module's name before it, as in "
                      "nn.%s",
                      name),
            "\"%s\" is in two of the modules that are used", name);
    FeValue *v = fe_binding_value(cx, found.binding);
    if (found.leaves_merge && is_per_replica(cx, v))
        return fe_error_note(
            cx, loc,
            fe_format(cx, "give it to the merge: merge (%s) { ... }", name),
            "\"%s\" differs among the replicas and is not visible in the merge",
            name);
    return v;
}

FeValue *
fe_lookup(Lower *cx, const char *name, Loc loc)
{
    return look_up(cx, name, false, loc);
}

FeValue *
fe_lookup_target(Lower *cx, const char *name, Loc loc)
{
    return look_up(cx, name, true, loc);
}

const char *
fe_nearest_member(Lower *cx, const FeScope *scope, const char *name)
{
    Names names = {0};
    add_names(cx, scope, &names);
    return nearest_name(name, names.data, names.len);
}

/* What is like a member that a module does not have, or what is written in its
 * place. */
static const char *
member_note(Lower *cx, const FeScope *space, const char *what, const char *name,
            Loc loc)
{
    const char *near = fe_nearest_member(cx, space, name);
    const char *ours = fe_hint_foreign(name);
    const char *args = fe_arguments_behind(cx, loc);
    if (ours && fe_scope_find(space, intern(cx->names, ours)))
        near = ours;
    if (near)
        return ours_note(cx, name, near, args);
    const char *call = call_note(cx, name, args);
    bool is_strategy = strcmp(what, "strategy") == 0;
    return call ? call
                : fe_elsewhere_note(
                      cx, is_strategy ? "tf.distribute.Strategy" : what, name);
}

FeValue *
fe_namespace_field(Lower *cx, const FeScope *space, const char *what,
                   const char *name, Loc loc)
{
    FeBinding *b = fe_scope_find(space, name);
    if (b)
        return fe_binding_value(cx, b);
    const char *note = member_note(cx, space, what, name, loc);
    return fe_error_note(cx, loc, note, "%s has no \"%s\"", what, name);
}
