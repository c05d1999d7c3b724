/*
 * plan_impl.h - the names in a plan, and its entries once they are read
 */
#ifndef TFD_IR_PLAN_PLAN_IMPL_H
#define TFD_IR_PLAN_PLAN_IMPL_H

#include "ir/base/vec.h"
#include "ir/plan/plan.h"

#define ENTRY_MANIFEST "manifest.json"
#define ENTRY_IR "placed.tir"
#define ENTRY_CALLS "calls.txt"
#define DIR_CODE "code/"
#define DIR_SOURCE "source/"

#define KERNEL_PREFIX "k_"

#define KEY_FORMAT "format"
#define KEY_ABI "abi"
#define KEY_COMPILER "compiler"
#define KEY_FILES "files"

typedef struct PlanEntry {
    const char *name;
    const char *bytes; /* a zero byte that size does not count follows */
    size_t size;
} PlanEntry;

typedef VEC(PlanEntry) PlanEntries;

/* The entry of that name, or NULL. */
const PlanEntry *plan_entry(const PlanEntries *all, const char *name);

/* Checks that the manifest is valid, of a known format and ABI, and lists
 * exactly the entries, with their hashes.  Sets p->compiler. */
Status plan_check_manifest(Arena *a, const PlanEntries *all, Plan *p) MUST_USE;

/* Sets codes and kernels of p. */
Status plan_list_code(Arena *a, const PlanEntries *all, Plan *p) MUST_USE;

/* Whether all kernels that the module names are in the plan. */
Status plan_check_kernels(const Plan *p) MUST_USE;

/* Sets module and programs of p. */
void plan_set_module(Arena *a, Plan *p, IrModule *m);

/* Sets diag, and what plan_set_module sets, after it is verified. */
Status plan_load_module(Arena *a, const PlanEntries *all, Plan *p) MUST_USE;

#endif
