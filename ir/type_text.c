/*
 * type_text.c - types, dimensions and names as text
 */
#include "ir/type_text.h"

#include <string.h>
#include "ir/words.h"

void
ir_print_name(Str *out, const char *name)
{
    str_addc(out, '@');
    if (ir_is_plain_name(name))
        str_add(out, name);
    else
        str_add_quoted(out, name, strlen(name));
}

static void
print_dim(Str *out, const IrModule *m, Dim d)
{
    if (ir_dim_is_const(d)) {
        str_addf(out, "%lld", (long long)d.c);
        return;
    }
    if (d.k != 1)
        str_addf(out, "%lld*", (long long)d.k);
    str_add(out, m->symbols.data[d.sym].name);
    if (d.c)
        str_addf(out, "%+lld", (long long)d.c);
}

void
ir_print_dims(Str *out, const IrModule *m, int rank, const Dim *dims)
{
    str_addc(out, '[');
    for (int i = 0; i < rank; i++) {
        str_add(out, i ? ", " : "");
        print_dim(out, m, dims[i]);
    }
    str_addc(out, ']');
}

void
ir_print_type(Str *out, const IrModule *m, const IrType *t)
{
    str_add(out, dtype_info[t->dtype].name);
    if (t->rank)
        ir_print_dims(out, m, t->rank, t->dims);
    if (t->locality == LOCAL_ON) {
        str_add(out, " on(");
        ir_print_name(out, t->on);
        str_addc(out, ')');
    } else if (t->locality != LOCAL_HOST) {
        str_addf(out, " %s", ir_locality_name(t->locality));
    }
}

const char *
ir_type_text(const IrModule *m, const IrType *t)
{
    Str s = str_new(m->arena);
    ir_print_type(&s, m, t);
    return str_text(&s);
}

const char *
ir_dims_text(const IrModule *m, int rank, const Dim *dims)
{
    Str s = str_new(m->arena);
    ir_print_dims(&s, m, rank, dims);
    return str_text(&s);
}
