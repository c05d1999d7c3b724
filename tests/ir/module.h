/*
 * module.h - IR as text for tests that need no interpreter
 */
#ifndef TFD_TESTS_IR_MODULE_H
#define TFD_TESTS_IR_MODULE_H

#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/unit/unit.h"

/* The module that text is, in a; one that the verifier rejects fails the test.
 */
static inline IrModule *
module_of_text(Arena *a, const char *text)
{
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "test.tir", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (!m || !ir_verify(m, d)) {
        diag_print(d, stderr);
        fail_msg("this is no IR:\n%s", text);
    }
    return m;
}

#endif
