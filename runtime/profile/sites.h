/*
 * sites.h - what the positions that were timed are, and their times
 *
 * A site is a position of main or of a device program.  A kernel is made of
 * operations of several lines and layers: its parts, which share its time by
 * their arithmetic in the model of ir/analysis/cost.h.
 *
 * Times are seconds of one step: of main, and the mean over the devices of this
 * process.  A launch has what main waited for it longer than the programs ran,
 * so all sites together take as long as main.
 */
#ifndef TFD_RUNTIME_PROFILE_SITES_H
#define TFD_RUNTIME_PROFILE_SITES_H

#include "runtime/exec/run_state.h"
#include "runtime/profile/recorder.h"

typedef enum RtStepPhase {
#define PHASE(name, is_waiting, doc) RT_PHASE_##name,
#include "runtime/profile/phases.def"
#undef PHASE
    NUM_RT_PHASES
} RtStepPhase;

typedef struct RtStepPhaseInfo {
    const char *name;
    bool waits; /* a processor has nothing to do with what it takes */
} RtStepPhaseInfo;
extern const RtStepPhaseInfo rt_step_phases[NUM_RT_PHASES];

/* An operation of a kernel, or the site's own. */
typedef struct RtPart {
    const IrOp *op;
    Loc line; /* in the program's own files */
    RtStepPhase phase;
    double share; /* of the site's time; those of a site add up to 1 */
    double operations;
} RtPart;

typedef struct RtTimedSite {
    const IrFunc *fn;
    const IrOp *op;
    const char *label; /* of a kernel; else the operation */
    bool is_kernel;
    bool in_steps;         /* in a loop over a dataset, or launched there */
    double seconds, calls; /* of a step, or if it is not in steps of the run */
    double operations, bytes; /* of a call */
    RtPart *parts;
    int num_parts;
} RtTimedSite;

typedef struct RtTimedSites {
    RtTimedSite *data;
    int len;
    int64_t steps;       /* that were counted: all but the first, if there are
                            more; 0: the program has no step */
    double step_seconds; /* of one, by the clock at the ends of steps */
} RtTimedSites;

/* What rt_profile_end left, in the run's arena. */
RtTimedSites rt_profile_sites(RtRun *run);

#endif
