/*
 * rendezvous.h - finding the control server over MPI
 *
 * MPI's launchers tell processes their numbers, and not where rank 0 is; MPI
 * joins them.  Rank 0 hears which machine each process is on, listens at a free
 * port, and sends its addresses and the job's key to each.  MPI stays open for
 * the job, so a link over it needs no other start, and its launcher ends all
 * processes when one of them dies.
 */
#ifndef TFD_RUNTIME_CLUSTER_MPI_RENDEZVOUS_H
#define TFD_RUNTIME_CLUSTER_MPI_RENDEZVOUS_H

#include "runtime/cluster/control/job.h"

/* Of the process that rank and size of job say, in a.  The key of job is that
 * of --key, which is not sent; NULL: rank 0 makes one.  path: of the MPI
 * library; NULL: that of the launcher's family. */
RtRendezvous *rt_mpi_rendezvous(Arena *a, const RtJobOptions *job,
                                const char *path);

#endif
