/*
 * checksum.h - one hash of all variables
 */
#ifndef TFD_RUNTIME_RUN_CHECKSUM_H
#define TFD_RUNTIME_RUN_CHECKSUM_H

typedef struct RtRun RtRun;

/* "checksum HASH" of all variables, to options->out. */
void rt_print_checksum(const RtRun *run);

#endif
