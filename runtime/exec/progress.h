/*
 * progress.h - a line on the terminal with the speed of the run
 */
#ifndef TFD_RUNTIME_EXEC_PROGRESS_H
#define TFD_RUNTIME_EXEC_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct RtProgress {
    FILE *to; /* NULL: no progress is shown */
    double begin, last;
    int64_t before; /* steps that are not of this process */
    bool is_shown;
} RtProgress;

void rt_progress_begin(RtProgress *p, FILE *to);

/* Sets the number of steps done before. */
void rt_progress_resume(RtProgress *p, int64_t steps);

/* Shows the line again if a tenth of a second has passed since. */
void rt_progress_step(RtProgress *p, int64_t steps);

/* Removes the line before other output, and at the end. */
void rt_progress_clear(RtProgress *p);

#endif
