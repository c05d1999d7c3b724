/*
 * cost.h - how long a device program would take
 *
 * A model, not a measurement: each kernel takes the longer of its arithmetic
 * and its traffic to memory, each collective its bytes over the link.  Batches
 * count as full.
 */
#ifndef TFD_IR_ANALYSIS_COST_H
#define TFD_IR_ANALYSIS_COST_H

#include "ir/device/device.h"
#include "ir/ir.h"

/* What a device and its link can do in a second, and the fixed cost of each
 * use. */
typedef struct IrMachine {
    double operations; /* of arithmetic, in a second */
    double bytes;      /* of its memory, in a second */
    double link_bytes; /* sent to other devices or workers, in a second */
    double kernel;     /* seconds to begin one */
    double collective; /* seconds to begin one */
    double memory;     /* bytes of a device; 0: it is the host's, or none */
} IrMachine;

extern const IrMachine ir_machines[NUM_DEVICE_KINDS];
/* The slowest kind of device among those of m, for which all wait; connected by
 * a network where m has several workers. */
const IrMachine *ir_machine_of(const IrModule *m);

/* What computing takes: seconds, and how many kernels are begun. */
typedef struct IrWork {
    double seconds, kernels;
} IrWork;

/* What one run of a program takes. */
typedef struct IrProgramWork {
    IrWork once;        /* a device, for all of its replicas */
    IrWork each;        /* and for each replica, one after the other */
    double collectives; /* how many */
    double reduced;     /* bytes that each replica gives to all_reduces */
    double gathered;    /* bytes that all_gathers give to each device */
} IrProgramWork;

/* The work of fn, a placed device program.  A loop with a known count is
 * counted that often, any other loop once; of two branches the longer one is
 * counted. */
IrProgramWork ir_program_work(const IrModule *m, const IrFunc *fn,
                              const IrMachine *machine);

/* What one run of a kernel does. */
typedef struct IrKernelWork {
    double operations; /* of arithmetic */
    double bytes;      /* that it reads and writes */
} IrKernelWork;
IrKernelWork ir_kernel_work(const IrModule *m, const IrOp *kernel);
/* The arithmetic of an operation within a kernel. */
double ir_op_operations(const IrModule *m, const IrOp *op);

/* Seconds until that many devices, which m's replicas share, have done it. */
double ir_work_seconds(const IrModule *m, const IrProgramWork *w,
                       const IrMachine *machine, int num_devices);

/* Bytes that its collectives then move between devices: the operands of all
 * replicas to the device that combines a slice of them, and the slice to all
 * others. */
double ir_work_bytes_between(const IrModule *m, const IrProgramWork *w,
                             int num_devices);

/* Seconds for one run of fn on that many devices. */
double ir_program_seconds(const IrModule *m, const IrFunc *fn,
                          const IrMachine *machine, int num_devices);

/* Seconds for op, of a program whose operations are not in kernels yet.  One
 * that will share a kernel counts by its arithmetic, since most of what it
 * reads and writes will not reach memory; a contraction like a kernel. */
double ir_op_seconds(const IrModule *m, const IrOp *op,
                     const IrMachine *machine);

/* Seconds that an all_reduce of so many bytes takes after its latency, which is
 * machine->collective. */
double ir_transfer_seconds(const IrModule *m, const IrMachine *machine,
                           double bytes);

#endif
