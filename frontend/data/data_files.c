/*
 * data_files.c - datasets that read files
 *
 * A program states the types that elements have, and the runner checks them
 * when it opens the files; nothing is read here.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/data/data.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "ir/type_bounds.h"

#include <string.h>

/* ---- paths -------------------------------------------------------------- */

/* A path with params of str, which is a format; and one that looks like it. */
static const char *
format_of_path(Lower *cx, const FeText *t)
{
    size_t n = strlen(IR_PATH_FORMAT);
    bool is_format = fe_text_is_late(t) ||
                     (t->text && strncmp(t->text, IR_PATH_FORMAT, n) == 0);
    return is_format ? fe_format(cx, IR_PATH_FORMAT "%s", t->format) : NULL;
}

/* Of all paths, whether one is written and has no letter. */
static bool
has_empty_path(const FeValues *paths)
{
    for (int i = 0; i < paths->len; i++) {
        const FeValue *v = paths->data[i];
        if (v->kind == FE_STRING && v->text.text && !*v->text.text)
            return true;
    }
    return false;
}

/* One path, or a list of them; each may have wildcards. */
static bool
read_paths(Lower *cx, const FeArgs *in, IrStage *stage)
{
    FeValue *v = fe_arg(in, 0);
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, v, &leaves);
    if (leaves.len == 0 || has_empty_path(&leaves)) {
        fe_error(cx, fe_arg_loc(in, 0), "%s reads one file at least", in->name);
        return false;
    }
    for (int i = 0; i < leaves.len; i++) {
        FeValue *leaf = leaves.data[i];
        const char *path =
            leaf->kind == FE_STRING ? format_of_path(cx, &leaf->text) : NULL;
        if (!path && !fe_require_text(cx, leaves.data[i], "a path",
                                      fe_arg_loc(in, 0), &path))
            return false;
        VEC_PUSH(cx->arena, stage->paths, path);
    }
    return true;
}

/* ---- types -------------------------------------------------------------- */

/* The type of an element, argument 1; NULL after an error. */
static FeValue *
read_type(Lower *cx, const FeArgs *in, const char *example)
{
    FeValue *type = fe_arg(in, 1);
    if (type->kind != FE_TYPE || !ir_type_is_static(type->type)) {
        fe_error(cx, fe_arg_loc(in, 1),
                 "%s takes the type of a row, as %s, not %s", in->name, example,
                 fe_describe(cx, type));
        return NULL;
    }
    type = fe_data_type(cx, *type->type, fe_arg_loc(in, 1));
    return fe_is_poison(type) ? NULL : type;
}

/* A nest of types, argument 1, or one type; NULL after an error. */
static FeValue *
read_types(Lower *cx, const FeArgs *in)
{
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, fe_arg(in, 1), &leaves);
    for (int i = 0; i < leaves.len; i++) {
        const FeValue *type = leaves.data[i];
        if (type->kind != FE_TYPE || !ir_type_is_static(type->type)) {
            fe_error(cx, fe_arg_loc(in, 1),
                     "%s takes the types of its components, as (x: f32[784], "
                     "y: i32), not %s",
                     in->name, fe_describe(cx, leaves.data[i]));
            return NULL;
        }
        if (fe_is_poison(fe_data_type(cx, *type->type, fe_arg_loc(in, 1))))
            return NULL;
    }
    if (leaves.len == 0)
        fe_error(cx, fe_arg_loc(in, 1), "elements of no components");
    return leaves.len ? fe_arg(in, 1) : NULL;
}

/* ---- names in the files ------------------------------------------------- */

/* A string, or the number of a column where these may have one. */
static bool
read_name(Lower *cx, FeValue *v, Loc loc, bool numbers, const char **out)
{
    int64_t number;
    if (!numbers || !fe_value_is_int(v, &number))
        return fe_require_text(cx, v, "a name", loc, out);
    if (number < 0)
        fe_error(cx, loc, "the number of a column is at least 0, not %lld",
                 (long long)number);
    *out = fe_format(cx, "%lld", (long long)number);
    return number >= 0;
}

/* Argument i: one name a component, all strings or all numbers. */
static bool
read_stated_names(Lower *cx, const FeArgs *in, int i, FeValue *types,
                  IrStage *stage)
{
    FeValues names = {0}, leaves = {0};
    int64_t unused;
    fe_value_leaves(cx->arena, fe_arg(in, i), &names);
    fe_value_leaves(cx->arena, types, &leaves);
    if (names.len != leaves.len) {
        fe_error(cx, fe_arg_loc(in, i), "%d names for %d components", names.len,
                 leaves.len);
        return false;
    }
    bool numbers =
        stage->kind == STAGE_csv && fe_value_is_int(names.data[0], &unused);
    for (int k = 0; k < names.len; k++) {
        const char *name;
        if (!read_name(cx, names.data[k], fe_arg_loc(in, i), numbers, &name))
            return false;
        VEC_PUSH(cx->arena, stage->names, name);
    }
    if (stage->kind == STAGE_csv)
        stage->ints[0] = numbers ? CSV_NO_HEADER : CSV_NAMES;
    return true;
}

/* The fields of a named tuple of types. */
static bool
take_field_names(Lower *cx, FeValue *types, IrStage *stage)
{
    if (types->kind != FE_NEST || types->nest.kind != NEST_NAMED)
        return false;
    for (int i = 0; i < types->nest.len; i++)
        if (types->nest.items[i]->kind != FE_TYPE)
            return false;
    for (int i = 0; i < types->nest.len; i++)
        VEC_PUSH(cx->arena, stage->names, types->nest.names[i]);
    return true;
}

/* ---- missing values ----------------------------------------------------- */

/* The text of a column, which may be empty. */
static bool
is_text(const IrStage *stage, const IrType *t)
{
    return stage->kind == STAGE_csv && t->dtype == DT_u8 && t->rank == 1;
}

/* Argument i: one constant for all components, or a nest of them like the
 * types. */
static bool
read_missing(Lower *cx, const FeArgs *in, int i, FeValue *types, IrStage *stage)
{
    FeValue *v = fe_arg(in, i);
    FeValues leaves = {0}, constants = {0};
    if (!v)
        return true;
    fe_value_leaves(cx->arena, types, &leaves);
    fe_value_leaves(cx->arena, v, &constants);
    if (v->kind == FE_NEST && constants.len != leaves.len) {
        fe_error(cx, fe_arg_loc(in, i), "%d values for %d components",
                 constants.len, leaves.len);
        return false;
    }
    Str data = str_new(cx->arena);
    for (int k = 0; k < leaves.len; k++) {
        char bytes[sizeof(int64_t)] = {0};
        const IrType *t = leaves.data[k]->type;
        FeValue *constant = v->kind == FE_NEST ? constants.data[k] : v;
        Scalar s;
        if (constant->kind != FE_CONST) {
            fe_error(cx, fe_arg_loc(in, i),
                     "missing is a constant, or one for each component, not %s",
                     fe_describe(cx, constant));
            return false;
        }
        if (!is_text(stage, t)) {
            if (!fe_constant_as(cx, constant, t->dtype, fe_arg_loc(in, i), &s))
                return false;
            scalar_store(t->dtype, bytes, 0, s);
        }
        str_addn(&data, bytes, dtype_info[t->dtype].bytes);
    }
    stage->data = data.data;
    stage->data_size = (int64_t)data.len;
    return true;
}

/* ---- one type ----------------------------------------------------------- */

/* A source of elements of the type that is argument 1. */
static FeValue *
typed_source(Lower *cx, const FeArgs *in, StageKind kind)
{
    IrStage stage = {.kind = kind, .loc = in->loc};
    if (!read_paths(cx, in, &stage))
        return &fe_poison;
    FeValue *type = read_type(cx, in, "u8[28, 28]");
    return type ? fe_data_source(cx, type, stage) : &fe_poison;
}

FeValue *
fe_builtin_npy(Lower *cx, const FeArgs *in)
{
    return typed_source(cx, in, STAGE_npy);
}

FeValue *
fe_builtin_idx(Lower *cx, const FeArgs *in)
{
    return typed_source(cx, in, STAGE_idx);
}

FeValue *
fe_builtin_bytes(Lower *cx, const FeArgs *in)
{
    IrStage stage = {.kind = STAGE_bytes, .loc = in->loc};
    FeValue *type = fe_value_type(cx->arena, ir_type_scalar(DT_u8, LOCAL_HOST));
    int64_t size;
    if (!read_paths(cx, in, &stage))
        return &fe_poison;
    if (fe_arg(in, 1))
        type = read_type(cx, in, "u8[3073]");
    if (!type)
        return &fe_poison;
    if (ir_type_bytes(cx->module, type->type, &size) && size == 0)
        return fe_error(cx, fe_arg_loc(in, 1), "elements of no bytes");
    return fe_data_source(cx, type, stage);
}

FeValue *
fe_builtin_lines(Lower *cx, const FeArgs *in)
{
    IrStage stage = {.kind = STAGE_lines, .loc = in->loc};
    bool cut = false;
    if (!read_paths(cx, in, &stage) || !fe_arg_bool(cx, in, 2, "cut", &cut))
        return &fe_poison;
    FeValue *type = read_type(cx, in, "u8[80]");
    if (!type)
        return &fe_poison;
    if (type->type->dtype != DT_u8 || type->type->rank != 1)
        return fe_error(cx, fe_arg_loc(in, 1),
                        "a line is bytes, as u8[80], not %s",
                        fe_type_text(cx, type->type));
    stage.ints[0] = cut;
    return fe_data_source(cx, type, stage);
}

/* ---- several components ------------------------------------------------- */

FeValue *
fe_builtin_npz(Lower *cx, const FeArgs *in)
{
    IrStage stage = {.kind = STAGE_npz, .loc = in->loc};
    FeValue *types = read_types(cx, in);
    if (!types || !read_paths(cx, in, &stage))
        return &fe_poison;
    if (fe_arg(in, 2)) {
        if (!read_stated_names(cx, in, 2, types, &stage))
            return &fe_poison;
    } else if (!take_field_names(cx, types, &stage)) {
        return fe_error_note(cx, fe_arg_loc(in, 1),
                             "write (x: f32[784], y: i32), or add names = "
                             "(\"x\", \"y\")",
                             "the arrays of an .npz file have names");
    }
    return fe_data_source(cx, types, stage);
}

/* One type is a record as it lies in the file. */
FeValue *
fe_builtin_tfrecord(Lower *cx, const FeArgs *in)
{
    IrStage stage = {.kind = STAGE_tfrecord, .loc = in->loc};
    FeValue *types = read_types(cx, in);
    if (!types || !read_paths(cx, in, &stage))
        return &fe_poison;
    if (fe_arg(in, 2)) {
        if (!read_stated_names(cx, in, 2, types, &stage))
            return &fe_poison;
    } else if (types->kind != FE_TYPE && !take_field_names(cx, types, &stage)) {
        return fe_error_note(cx, fe_arg_loc(in, 1),
                             "write (image: u8[28, 28], label: i64), or add "
                             "names = (\"image\", \"label\")",
                             "the features of an Example have names");
    }
    if (fe_arg(in, 3) && stage.names.len == 0)
        return fe_error(cx, fe_arg_loc(in, 3),
                        "nothing is missing in the bytes of a record; state "
                        "features");
    if (!read_missing(cx, in, 3, types, &stage))
        return &fe_poison;
    return fe_data_source(cx, types, stage);
}

/* ---- csv ---------------------------------------------------------------- */

/* Whether the first line is one of names, once it is known whether these are
 * looked up. */
static bool
read_header(Lower *cx, const FeArgs *in, IrStage *stage)
{
    bool header = stage->ints[0] != CSV_NO_HEADER;
    if (!fe_arg_bool(cx, in, 2, "header", &header))
        return false;
    if (header == (stage->ints[0] != CSV_NO_HEADER))
        return true;
    if (!header && fe_arg(in, 3)) {
        fe_error(cx, fe_arg_loc(in, 3),
                 "without a header columns have numbers, as names = (0, 2)");
        return false;
    }
    if (!header) /* the fields name components alone */
        stage->names.len = 0;
    stage->ints[0] = header ? CSV_HEADER : CSV_NO_HEADER;
    return true;
}

static bool
read_separator(Lower *cx, const FeArgs *in, IrStage *stage)
{
    const char *text = ",";
    if (fe_arg(in, 4) && !fe_require_text(cx, fe_arg(in, 4), "the separator",
                                          fe_arg_loc(in, 4), &text))
        return false;
    if (strlen(text) != 1 || strchr("\"\r\n", text[0]) || text[0] < 0) {
        fe_error(cx, fe_arg_loc(in, 4),
                 "the separator is one character, as \";\"");
        return false;
    }
    stage->ints[1] = text[0];
    return true;
}

FeValue *
fe_builtin_csv(Lower *cx, const FeArgs *in)
{
    IrStage stage = {.kind = STAGE_csv, .loc = in->loc};
    FeValue *types = read_types(cx, in);
    if (!types || !read_paths(cx, in, &stage))
        return &fe_poison;
    if (fe_arg(in, 3)) {
        if (!read_stated_names(cx, in, 3, types, &stage))
            return &fe_poison;
    } else if (take_field_names(cx, types, &stage)) {
        stage.ints[0] = CSV_NAMES;
    }
    if (!read_header(cx, in, &stage) || !read_separator(cx, in, &stage) ||
        !read_missing(cx, in, 5, types, &stage))
        return &fe_poison;
    return fe_data_source(cx, types, stage);
}
