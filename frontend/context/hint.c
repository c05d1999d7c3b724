/*
 * hint.c - suggestions for an unknown name
 *
 * Names of other languages are far from ours in spelling, and names of the
 * library are not visible before a "use"; so both are looked up before the
 * nearest spelling is suggested.
 */
#include "frontend/context/hint.h"

#include <string.h>
#include "frontend/lib/library.h"

/* clang-format off */
static const struct {
    const char *theirs, *ours;
} words[] = {
    {"True", "true"}, {"False", "false"},
    {"None", "none"}, {"null", "none"}, {"nil", "none"},

    {"float", "f32"}, {"float32", "f32"}, {"single", "f32"},
    {"double", "f64"}, {"float64", "f64"},
    {"half", "f16"}, {"float16", "f16"}, {"bfloat16", "bf16"},
    {"int", "i32"}, {"int32", "i32"}, {"long", "i64"}, {"int64", "i64"},
    {"short", "i16"}, {"int16", "i16"}, {"char", "i8"}, {"int8", "i8"},
    {"byte", "u8"}, {"uint8", "u8"}, {"boolean", "bool"},

    {"reduce_sum", "sum"}, {"reduce_mean", "mean"}, {"average", "mean"}, {"avg", "mean"},
    {"reduce_max", "max"}, {"maximum", "max"},
    {"reduce_min", "min"}, {"minimum", "min"},
    {"arange", "iota"}, {"full", "fill"}, {"power", "**"}, {"pow", "**"},
    {"Linear", "Dense"}, {"ReLU", "relu"}, {"Tanh", "tanh"},
    {"Sigmoid", "sigmoid"}, {"GELU", "gelu"}, {"Softmax", "softmax"},
    {"CrossEntropyLoss", "softmax_cross_entropy"}, {"MSELoss", "mse"},
    {"BatchNorm1d", "BatchNorm"}, {"BatchNorm2d", "BatchNorm"},
    {"LayerNormalization", "LayerNorm"}, {"BatchNormalization", "BatchNorm"},
    {"AdamOptimizer", "Adam"}, {"GradientDescent", "Sgd"},
    {"GradientDescentOptimizer", "Sgd"},
    {"cat", "concat"}, {"concatenate", "concat"}, {"dot", "matmul"},
    {"gradient", "grad"}, {"gradients", "grad"},

    {"num_replicas_in_sync", "num_replicas"},
    {"replica_id_in_sync_group", "replica_id"},
    {"experimental_local_results", "local_results"},
    {"experimental_distribute_dataset", "distribute"},
    {"distribute_datasets_from_function", "distribute_from"},
    {"experimental_distribute_values_from_function", "values_from"},
};
/* clang-format on */

bool
fe_hint_is_module(const char *name)
{
    static const char *const modules[] = {
        "np", "numpy", "torch", "tf",   "jax",  "jnp", "keras",
        "F",  "lax",   "math",  "self", "dist", "tape"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(modules[i], name) == 0)
            return true;
    return false;
}

static const struct {
    const char *theirs, *ours;
} arguments[] = {
    {"act", "activation"},
    {"activation_fn", "activation"},
    {"dim", "axis"},
    {"dims", "axis"},
    {"axes", "axis"},
    {"keepdim", "keepdims"},
    {"keep_dims", "keepdims"},
    {"learning_rate", "lr"},
    {"in_features", "n_in"},
    {"in_channels", "n_in"},
    {"units", "n_out"},
    {"out_features", "n_out"},
    {"out_channels", "n_out"},
    {"filters", "n_out"},
    {"kernel_size", "size"},
    {"strides", "stride"},
    {"momentum", "mu"},
    {"betas", "beta1"},
    {"p", "rate"},
    {"buffer_size", "size"},
    {"batch_size", "n"},
    {"num_classes", "size"},
    {"depth", "size"},
    {"diagonal", "k"},
    {"size", "shape"},
    {"loc", "mean"},
    {"scale", "stddev"},
    {"minval", "low"},
    {"a_min", "low"},
    {"a_max", "high"},
    {"clip_value_min", "low"},
    {"clip_value_max", "high"},
    {"maxval", "high"},
};

const char *
fe_hint_argument(const char *name)
{
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        if (strcmp(arguments[i].theirs, name) == 0)
            return arguments[i].ours;
    return NULL;
}

static const struct {
    const char *theirs, *instead;
} methods[] = {
    {"backward",
     "leave this line out: the gradients are a value, grad($, trainable())"},
    {"grad", "the gradients are a value: grad(loss, trainable())"},
    {"zero_grad",
     "leave this line out: gradients are values, and none is left of the last "
     "step"},
    {"step",
     "write $.apply(trainable(), grad(@, trainable())#), which takes the "
     "gradients"},
    {"minimize", "write $.apply(trainable(), grad(@, trainable())#)"},
    {"apply_gradients", "write $.apply(trainable(), grad(@, trainable())#)"},
    {"forward", "write $(x): it is called as a function is"},
    {"parameters", "write trainable($), which lists the variables of it"},
    {"item", "write $ alone: a scalar is a number as it is"},
    {"numpy", "write $ alone: a tensor is printed and saved as it is"},
    {"detach", "write stop_gradient($)"},
    {"cuda", "leave this out: tfdc --devices cuda:0 says where a program runs"},
    {"cpu", "leave this out: tfdc --devices cpu:0 says where a program runs"},
    {"to", "leave this out: tfdc --devices says where a program runs"},
    {"size()", "write shape($)"},
    {"size(0)", "write len($)"},
    {"size", "write shape($)[%]"},
    {"view", "write reshape($, (%))"},
    {"float", "write f32($)"},
    {"long", "write i64($)"},
    {"half", "write f16($)"},
    {"double", "write f64($)"},
    {"int", "write i32($)"},
    {"assign", "write $ = %"},
    {"assign_add", "write $ += %"},
    {"assign_sub", "write $ -= %"},
    {"copy_", "write $ = %"},
    {"add_", "write $ + %"},
    {"sub_", "write $ - %"},
    {"mul_", "write $ * %"},
    {"div_", "write $ / %"},
    {"where", "write where(condition, $, other)"},
    {"masked_fill", "write where(mask, value, $)"},
    {"repeat", "write concat([$, $], axis = 0), twice $ along axis 0"},
    {"broadcast_to", "write $ + zeros(shape): operands of + are broadcast"},
    {"data", "write $ alone: its gradients are values of their own"},
    {"map", "write [f(x) for x in $]"},
    {"train",
     "leave this line out: layers are told when called, $(x, training = true)"},
    {"eval", "leave this line out: layers are told when called, $(x, training "
             "= false)"},
};

static const struct {
    const char *theirs, *instead;
} calls[] = {
#define CALL(theirs, instead) {theirs, instead},
#include "frontend/context/calls.def"
#undef CALL
};

/* Whether a row, "size" or "size(0)", is of that call. */
static bool
is_method(const char *theirs, const char *name, const char *args)
{
    size_t n = strcspn(theirs, "("), len = strlen(args);
    if (strlen(name) != n || strncmp(theirs, name, n) != 0)
        return false;
    return !theirs[n] || (strlen(theirs) == n + len + 2 &&
                          strncmp(theirs + n + 1, args, len) == 0);
}

const char *
fe_hint_method(const char *name, const char *args)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (is_method(methods[i].theirs, name, args ? args : ""))
            return methods[i].instead;
    return NULL;
}

const char *
fe_hint_call(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].theirs, name) == 0)
            return calls[i].instead;
    return NULL;
}

/* Whether theirs, "np.clip", is name behind its last point. */
static bool
is_called(const char *theirs, const char *name)
{
    const char *point = strrchr(theirs, '.');
    return strcmp(point ? point + 1 : theirs, name) == 0;
}

const FeForeign *
fe_hint_elsewhere(const char *module, const char *name)
{
    const FeForeign *found = NULL;
    size_t n = module ? strlen(module) : 0;
    for (int i = 0; i < fe_foreign_len; i++) {
        const FeForeign *f = &fe_foreign[i];
        if (!is_called(f->theirs, name))
            continue;
        if (!found)
            found = f;
        if (module && !strncmp(f->theirs, module, n) && f->theirs[n] == '.')
            return f;
    }
    return found;
}

const char *
fe_hint_foreign(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].theirs, name) == 0)
            return words[i].ours;
    return NULL;
}

/* What stands behind the name in a line of text that begins with "fn name(", or
 * "module name" and a character that ends it; NULL without one. */
static const char *
definition(const char *text, const char *name)
{
    static const char *const keywords[] = {"\nfn ", "\nmodule "};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const char *at = text;
        while ((at = strstr(at, keywords[i]))) {
            at += strlen(keywords[i]);
            if (strncmp(at, name, len) == 0 && strchr("( ", at[len]))
                return at + len;
        }
    }
    return NULL;
}

/* The module that defines name, and what stands behind it there; or NULL. */
static const char *
library_of(const char *name, const char **rest)
{
    for (int i = 0; i < fe_library_len; i++)
        if ((*rest = definition(fe_library[i].text, name)))
            return fe_library[i].name;
    *rest = NULL;
    return NULL;
}

const char *
fe_hint_library(const char *name)
{
    const char *rest;
    return library_of(name, &rest);
}

const char *
fe_hint_parameters(Arena *a, const char *name)
{
    const char *from;
    library_of(name, &from);
    if (!from || *from != '(')
        return from ? "" : NULL;
    size_t n = 1;
    for (int depth = 1; depth; n++)
        depth += (from[n] == '(') - (from[n] == ')');
    return arena_strndup(a, from + 1, n - 2);
}
