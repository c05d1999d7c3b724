/*
 * load.c - IR as text for the reference interpreter
 */
#include "tests/ref/load.h"

#include <string.h>
#include "ir/text/text.h"
#include "ir/verify/verify.h"

IrModule *
ref_load(Arena *a, const char *text, const char **wrong)
{
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "program.tir", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (m && ir_verify(m, d))
        return m;
    *wrong = diag_text(d, a);
    return NULL;
}
