/*
 * verify_impl.h - inside the verifier: its parts
 *
 * Each part walks a module once and relies on the invariants that the earlier
 * parts, in this order, have checked.
 */
#ifndef TFD_IR_VERIFY_VERIFY_IMPL_H
#define TFD_IR_VERIFY_VERIFY_IMPL_H

#include "ir/ir.h"


typedef struct Verify {
    const IrModule *module;
    Diag *diag;
    Arena *scratch; /* until the verifier is done */
    int num_errors;
} Verify;

/* "message, in %x: f32 = add %a, %b" */
void ir_verify_error(Verify *v, const IrOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error unless there is such a variable. */
void ir_verify_var(Verify *v, const char *name, Loc loc);
/* An error about something other than an operation. */
void ir_verify_error_at(Verify *v, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether types are valid: their symbols exist, their sizes are finite. */
void ir_verify_types(Verify *v);
/* Declarations: names are unique and exist, attributes are valid, and the types
 * through a dataset match. */
void ir_verify_declarations(Verify *v);
/* Form of operations, visibility of values, inferred types, regions. */
void ir_verify_structure(Verify *v);
/* Control flow, launches and all other results that the table does not infer.
 */
void ir_verify_given(Verify *v);
/* The contexts and phases of operations; reasons; starts and dones of
 * collectives. */
void ir_verify_contexts(Verify *v);
/* Localities, writes, operations across replicas, the order of collectives. */
void ir_verify_locality(Verify *v);
/* Batch symbols: used where their rows are known. */
void ir_verify_symbols(Verify *v);
/* Places of a placed module. */
void ir_verify_places(Verify *v);

/* Calls visit on every operation of every function. */
void ir_verify_walk(Verify *v, void (*visit)(Verify *v, IrOp *op));

#endif
