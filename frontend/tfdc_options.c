/*
 * tfdc_options.c - the options of tfdc, in the order of its help
 */
#include "frontend/tfdc_options.h"

#include "ir/base/io/limit.h"
#include "ir/device/strategy.h"

static const char *const to_names[] = {
    "ast", "ir", "placed", "kernels", "llvm", "asm", "ptx", "plan", NULL};
static const char *const from_names[] = {"ir", "placed", "kernels", NULL};
static const char *const precision_names[] = {"exact", "tf32", "vdpbf16ps",
                                              NULL};
static const char *const level_names[] = {"0", "1", "2", "3", NULL};

static const OptionRow rows[NUM_OPTS] = {
    [OPT_OUT] = {.letter = 'o',
                 .arg = "FILE",
                 .help = "write the plan (or what --to prints) there; beside "
                         "the source by default; - is standard output"},
    [OPT_STRATEGY] = {.name = "strategy",
                      .arg = "NAME",
                      .values = ir_strategy_names,
                      .help = "how variables and steps are spread (default: "
                              "the file's, else by the number of devices)"},
    [OPT_DEVICES] = {.name = "devices",
                     .arg = "LIST",
                     .help = "cpu:0, cpu:0-3, cpu:0,cpu:1, cuda:0-1 (default: "
                             "the file's, else cpu:0); 1,024 at most"},
    [OPT_WORKERS] = {.name = "workers",
                     .arg = "N",
                     .help = "multi_worker_mirrored: the number of workers, "
                             "each with an input pipeline of its own and the "
                             "devices of --devices (default: the file's, else "
                             "1)"},
    [OPT_PARAMETERS] = {.name = "parameter-device",
                        .arg = "DEVICE",
                        .help = "central_storage: the device that has the "
                                "variables (default: the file's, else the "
                                "first)"},
    [OPT_CROSS] = {.name = "cross-device-ops",
                   .arg = "NAME[:KEY=VALUE]",
                   .help = "how replicas are combined: auto (the default: on "
                           "CPU devices two_phase), two_phase, ring, nccl, "
                           "nccl:allreduce, hierarchical_copy (also with "
                           "packs=N), reduction_to_one (also with "
                           "reduce_to_device=DEVICE)"},
    [OPT_COLLECTIVES] = {.name = "collectives",
                         .arg = "KEY=VALUE",
                         .repeatable = true,
                         .help = "bytes_per_pack=N: a pack of collectives is "
                                 "closed when it is larger; 0 is no limit; "
                                 "else a cost model decides. "
                                 "timeout_seconds=S: how long a replica waits "
                                 "in one for the others; 0: as tfd-run says"},
    [OPT_DEFINE] = {.letter = 'D',
                    .arg = "NAME=VALUE",
                    .repeatable = true,
                    .help = "override a const of the program"},
    [OPT_LIMIT] = {.name = "limit",
                   .repeatable = true,
                   .arg = LIMIT_ARG,
                   .help = LIMIT_HELP},
    [OPT_TO] = {.name = "to",
                .arg = "PHASE",
                .values = to_names,
                .help = "stop after a phase and print it"},
    [OPT_FROM] = {.name = "from",
                  .arg = "PHASE",
                  .values = from_names,
                  .help = "read that phase's text instead of a program"},
    [OPT_PASSES] = {.name = "passes",
                    .arg = "A,B,...",
                    .help = "run just these passes and print the IR"},
    [OPT_DUMP] = {.name = "dump-phases",
                  .arg = "DIR",
                  .help = "write every phase there: 01-ast.txt, 02-ir.tir, "
                          "... numbered in order"},
    [OPT_PRINT_AFTER] = {.name = "print-after",
                         .arg = "PASS",
                         .help = "print the IR after a pass, or after all"},
    [OPT_VERIFY] = {.name = "verify-each",
                    .help = "verify the IR after every pass"},
    [OPT_TIME] = {.name = "time",
                  .help = "print the time of each phase and pass"},
    [OPT_EXPAND] = {.name = "expand",
                    .help = "one copy of each program a device in what --to "
                            "prints"},
    [OPT_EXPLAIN] = {.name = "explain",
                     .help = "print the program in words: variables, batches, "
                             "every inserted operation with its reason, "
                             "memory, code; a plan is made only where -o says"},
    [OPT_TARGET] = {.name = "target",
                    .arg = "LIST",
                    .help = "the machines that the plan has code for: native "
                            "(this one), x86-64-v3, x86-64-v4, "
                            "x86-64-v4+bf16, x86-64-v4+amx, and sm_80 or "
                            "sm_90 for GPUs "
                            "(default: native; for cuda devices "
                            "native,sm_80)"},
    [OPT_PRECISION] = {.name = "precision",
                       .arg = "NAME",
                       .values = precision_names,
                       .help = "how products of matrices and convolutions "
                               "are added: to the same bits everywhere (exact, "
                               "the default); on GPUs by tensor cores, with "
                               "operands of f32 rounded to TF32 and an order "
                               "of their own; or those of bf16 in the order "
                               "of x86's vdpbf16ps, again to the same bits "
                               "everywhere, faster on AMD's CPUs that have it"},
    [OPT_CHECK_NAN] = {.name = "check-nan",
                       .help = "each operation in a kernel of its own, so that "
                               "tfd-run --check-nan names the one that makes a "
                               "nan; slower, with more memory, to the same "
                               "bits"},
    [OPT_WIDEN] = {.name = "widen",
                   .help = "f32 becomes f64 everywhere (for tests)"},
    [OPT_LEVEL] = {.letter = 'O',
                   .arg = "LEVEL",
                   .values = level_names,
                   .help = "how hard to optimise (default: 2); the results "
                           "are the same to the bit"},
};

const OptionTable tfdc_options = {
    .program = "tfdc",
    .about = "Compiles a training step into a plan for tfd-run.",
    .operand = "FILE.tfd",
    .rows = rows,
    .num_rows = NUM_OPTS,
};
