/*
 * plan_impl.h - the names in a plan, and its entries once they are read
 */
#ifndef TFD_IR_PLAN_PLAN_IMPL_H
#define TFD_IR_PLAN_PLAN_IMPL_H

#include "ir/base/vec.h"
#include "ir/plan/plan.h"

#define ENTRY_MANIFEST "manifest.json"
#define ENTRY_IR "placed.tir"
#define DIR_CODE "code/"
#define DIR_SOURCE "source/"

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

/* The error for code that is only for other machines; here: the best target
 * that runs here, or NULL. */
Status plan_refuse_target(const Plan *p, const char *have,
                          const char *here) MUST_USE;

/* Checks that the manifest is valid, of a known format and ABI, and lists
 * exactly the entries, with their hashes.  Sets p->compiler. */
Status plan_check_manifest(Arena *a, const PlanEntries *all, Plan *p) MUST_USE;

/* Sets target and objects of p. */
Status plan_choose_objects(Arena *a, const PlanEntries *all, Plan *p) MUST_USE;

/* Sets diag and module of p. */
Status plan_load_module(Arena *a, const PlanEntries *all, Plan *p) MUST_USE;

#endif
