/*
 * plan.h - the file between tfdc and tfd-run
 *
 * A plan is a zip of stored entries with fixed times in a fixed order, so that
 * equal contents are equal bytes (docs/plan.md):
 *
 *   manifest.json          format and ABI numbers, compiler, hashes of the rest
 *   placed.tir             the placed module as text
 *   code/TARGET/NAME.o     relocatable objects, one set a target
 *   source/NAME            the program's text, for messages
 */
#ifndef TFD_IR_PLAN_PLAN_H
#define TFD_IR_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include "ir/base/status.h"
#include "ir/ir.h"

#define PLAN_FORMAT 2

/* ---- writing ----------------------------------------------------------- */

typedef struct PlanWriter PlanWriter;

/* A plan without entries.  The bytes handed to the functions below are not
 * copied: they must last until it is written. */
PlanWriter *plan_writer_new(Arena *a);

/* The text of the placed module; must be set. */
void plan_set_ir(PlanWriter *w, const char *text, size_t len);

/* An object for a target of target.h.  name is a file name without ".o"; every
 * target has the same names. */
void plan_add_object(PlanWriter *w, const char *target, const char *name,
                     const void *bytes, size_t size);

/* The text of source number 0, 1, ... of the module. */
void plan_add_source(PlanWriter *w, const char *name, const char *text,
                     size_t len);

/* The name of the entry of such a text: "source/0/linear.tfd". */
const char *plan_source_entry(Arena *a, int number, const char *name);

/* Writes to a file ("-": standard output), or to memory in a. */
Status plan_write(const PlanWriter *w, const char *path) MUST_USE;
Status plan_write_bytes(const PlanWriter *w, Arena *a, const char **bytes,
                        size_t *len) MUST_USE;

/* ---- reading ----------------------------------------------------------- */

typedef struct PlanObject {
    const char *name; /* "code/x86-64-v3/k_12ab.o" */
    const void *bytes;
    size_t size;
} PlanObject;

typedef struct Plan {
    const char *path; /* its name in messages */
    const char *compiler;
    const char *hash;          /* of the whole file */
    const char *ir_hash;       /* of placed.tir; NULL: not to be checked */
    const char *target;        /* the best target in the plan that runs here */
    const PlanObject *objects; /* of that target */
    int num_objects;
    Diag *diag;       /* knows the program's sources */
    IrModule *module; /* placed and verified */
} Plan;

/* Opens a plan and checks all of it except the contents of objects: zip,
 * numbers, hashes, target, and that the module can be read and verified.  The
 * plan and everything it points to are in a.  A plan that cannot be run gives
 * one status of kind INPUT that names the file. */
Status plan_read(Arena *a, const char *path, Plan **out) MUST_USE;
Status plan_read_bytes(Arena *a, const char *path, const char *bytes,
                       size_t len, Plan **out) MUST_USE;

/* "cannot run "x.tfp": ...", for any defect of a plan. */
Status plan_refuse(const Plan *p, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;

#endif
