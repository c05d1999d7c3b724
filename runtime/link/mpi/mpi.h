/*
 * mpi.h - a link over the cluster's MPI
 *
 * tfd-run does not link an MPI: the library is opened by name, and what differs
 * among the families of MPI (cluster/mpi/mpi.def) is known of three: Open MPI, MPICH with
 * all that have its ABI, and the standard ABI of MPI 5.
 */
#ifndef TFD_RUNTIME_LINK_MPI_MPI_H
#define TFD_RUNTIME_LINK_MPI_MPI_H

#include "runtime/link/link.h"

/* Initializes MPI, of which this process is rank `rank` of size, or any other
 * one.  path: of the library; NULL: that of the launcher's family. */
Status rt_link_mpi_open(int rank, int size, const char *path,
                        RtLink **out) MUST_USE;

#endif
