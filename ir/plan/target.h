/*
 * target.h - the machines that a plan may have code for
 *
 * A target is of one kind of devices, and has a level: its code runs on the
 * devices of its kind whose level is as high or higher.  CPUs have the levels
 * of the x86-64 ABI, and two more with instructions for bf16; GPUs their
 * compute capabilities.
 */
#ifndef TFD_IR_PLAN_TARGET_H
#define TFD_IR_PLAN_TARGET_H

#include <stdbool.h>
#include "ir/device/device.h"

/* The instructions that a target has for products of bf16. */
typedef enum TargetBf16 {
    TARGET_BF16_NONE,
    TARGET_BF16_AVX, /* AVX512-BF16 */
    TARGET_BF16_AMX  /* and AMX */
} TargetBf16;

typedef struct TargetInfo {
    const char *name;
    IrDeviceKind device;
    int level;
    TargetBf16 bf16;
    const char *doc;
} TargetInfo;

enum {
    NUM_TARGETS = 0
#define TARGET(device, name, level, base, bf16, registers, register_bytes,     \
               doc)                                                            \
    +1
#include "ir/plan/targets.def"
#undef TARGET
};

/* The rows of targets.def, in their order. */
extern const TargetInfo target_info[NUM_TARGETS];

/* What code for a kind of devices is. */
typedef struct TargetFormat {
    const char *extension; /* of its entries in a plan: "o"; NULL: devices of
                              this kind have no code of their own */
    const char *machine;   /* such a device in messages: "CPU" */
    bool hosts;            /* it has main and all other functions, too */
    const char *doc;
} TargetFormat;

extern const TargetFormat target_formats[NUM_DEVICE_KINDS];

/* The target of that name, or NULL. */
const TargetInfo *target_find(const char *name);

/* The target of the highest level that devices of a kind run, which run that
 * level; NULL if they run none of them. */
const TargetInfo *target_of_level(IrDeviceKind device, int level);

/* The least target of a kind, which the most devices run; the kind has one. */
const TargetInfo *target_least(IrDeviceKind device);

/* The level of this machine's CPU: that of the highest target that runs on it,
 * or 0. */
int target_level_here(void);

/* Asks the kernel to let this process, with all of its threads, use what code
 * for t needs; false: it does not. */
bool target_allow(const TargetInfo *t);

/* Whether code for the named target runs on this CPU; false for a name that
 * is no target. */
bool target_runs_here(const char *name);

/* The target whose code is the fastest on this CPU, or NULL if it runs none of
 * them; and its name.  Code of a higher level may run here, and be slower. */
const TargetInfo *target_best_here(void);
const char *target_here(void);

#endif
