/*
 * plan.h - the file between tfdc and tfd-run
 *
 * A plan is a zip of stored entries with fixed times in a fixed order, so that
 * equal contents are equal bytes (docs/plan.md):
 *
 *   manifest.json          format and ABI numbers, compiler, hashes of the rest
 *   placed.tir             the placed module as text
 *   calls.txt              which calls its operations are inlined for
 *   code/TARGET/NAME.o     for a CPU: the functions, and an object a kernel
 *   code/TARGET/NAME.ptx   for a GPU: a module of PTX a kernel
 *   source/N/NAME          the text of source number N, for messages
 *
 * All targets have code for the same kernels.  A kernel's number is its index
 * in the sorted list of their names, a device program's number its index among
 * the programs in placed.tir: the numbers that a device is asked to launch.
 */
#ifndef TFD_IR_PLAN_PLAN_H
#define TFD_IR_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "ir/ir.h"
#include "ir/plan/target.h"

#define PLAN_FORMAT 2

/* ---- writing ----------------------------------------------------------- */

typedef struct PlanWriter PlanWriter;

/* A plan without entries.  The bytes handed to the functions below are not
 * copied: they must last until it is written. */
PlanWriter *plan_writer_new(Arena *a);

/* The text of the placed module; must be set. */
void plan_set_ir(PlanWriter *w, const char *text, size_t len);

/* The text of its calls (ir/text/calls.h). */
void plan_set_calls(PlanWriter *w, const char *text, size_t len);

/* Code for a target of targets.def.  name is a file name without its extension:
 * "k_12ab" of a kernel, "host" of the functions. */
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

/* An entry with code: an object, or a kernel's PTX. */
typedef struct PlanObject {
    const char *name;  /* "code/x86-64-v3/k_12ab.o" */
    const void *bytes; /* a zero byte that size does not count follows */
    size_t size;
} PlanObject;

/* The code of a plan for one target. */
typedef struct PlanCode {
    const char *name;          /* of the target */
    const TargetInfo *target;  /* NULL: none that this program knows */
    const PlanObject *objects; /* the functions, then the kernels by number */
    int num_objects;
    const PlanObject *kernels; /* these: num_kernels of the plan */
    size_t bytes;              /* of all objects */
} PlanCode;

typedef struct Plan {
    const char *path; /* its name in messages */
    const char *compiler;
    const char *hash;      /* of the whole file */
    const char *ir_hash;   /* of placed.tir; NULL: not to be checked */
    const PlanCode *codes; /* in the order of targets.def, then unknown ones */
    int num_codes;
    const char *const *kernels; /* their names, "k_12ab", by number */
    int num_kernels;
    Diag *diag;        /* knows the program's sources */
    IrModule *module;  /* placed and verified */
    const char *calls; /* the text of its calls; NULL: none */
    size_t calls_len;
    IrFunc *const *programs; /* of devices, by number */
    int num_programs;
} Plan;

/* Opens a plan and checks all of it except the contents of objects: zip,
 * numbers, hashes, that all targets have the same kernels, and that the module
 * can be read and verified.  The plan and everything it points to are in a.  A
 * plan that cannot be run gives one status of kind INPUT that names the file.
 */
Status plan_read(Arena *a, const char *path, Plan **out) MUST_USE;
Status plan_read_bytes(Arena *a, const char *path, const char *bytes,
                       size_t len, Plan **out) MUST_USE;

/* The code for devices of a kind and level (target.h): that of the highest
 * level which they run.  A plan without it gives a status of kind INPUT that
 * says which targets tfdc would have to add.  Devices that
 * need none get NULL: those of a kind without targets, and in a plan without
 * kernels all but the host's. */
Status plan_choose_code(const Plan *p, IrDeviceKind device, int level,
                        const PlanCode **out) MUST_USE;

/* The code for this machine's CPU that is the fastest there (target_best_here),
 * or else the best that runs. */
Status plan_choose_code_here(const Plan *p, const PlanCode **out) MUST_USE;

/* The number of the kernel that an operation of p->module is computed by; -1:
 * the operation does not say. */
int plan_kernel_number(const Plan *p, const IrOp *kernel);

/* The number of the kernel of this name; -1: the plan has none. */
int plan_kernel_named(const Plan *p, const char *name);

/* What is in a plan, in words: devices, numbers of programs and kernels, code.
 */
void plan_print_info(Str *out, const Plan *p);

/* A line for each target: bytes, kind of devices, what the code is; codes
 * without objects, which are still to be compiled, have no numbers. */
void plan_print_code(Str *out, const PlanCode *codes, int num);

/* The number of a device program; -1 for any other function. */
int plan_program_number(const Plan *p, const IrFunc *fn);

/* Gives the module's operations their calls, which only a profile and
 * the message of a fault need. */
Status plan_load_calls(const Plan *p) MUST_USE;

/* "cannot run "x.tfp": ...", for any defect of a plan. */
Status plan_refuse(const Plan *p, const char *format, ...)
    __attribute__((format(printf, 2, 3))) MUST_USE;

#endif
