/*
 * library.h - an MPI, opened by name
 */
#ifndef TFD_RUNTIME_LINK_MPI_LIBRARY_H
#define TFD_RUNTIME_LINK_MPI_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>
#include "ir/base/status.h"

/* A pointer or a number, as the family has it: both travel in a register. */
typedef uintptr_t MpiHandle;
/* As large as that of any family. */
typedef uint64_t MpiRequest;

typedef struct MpiLibrary {
#define MPI_CALL(name, params) int(*name) params;
#include "runtime/cluster/mpi/mpi.def"
#undef MPI_CALL
    const char *family;
    MpiHandle world, byte, errors_return; /* 0: there is none */
    void *status_ignore;
    int serialized;
} MpiLibrary;

/* Whether an MPI's launcher has started this process. */
bool rt_mpi_has_launcher(void);

/* Initialized by the first one that opens it: the start of a job, or a link;
 * they do not use it at the same time.  path: of the library; NULL: that
 * of the launcher's family.  The process ends with a message when the library
 * does not come back for `timeout` seconds, as where another process has died;
 * 0: it may take as long as it does. */
Status rt_mpi_library_open(const char *path, double timeout,
                           const MpiLibrary **out) MUST_USE;

/* Of one that has opened it; the last one finalizes, which waits for all
 * processes: not to be called after a failure.  timeout as above. */
void rt_mpi_library_close(double timeout);

/* The failure where MPI's number of a rank does not fit the job's. */
Status rt_mpi_other_numbers(const MpiLibrary *mpi, int rank, int size,
                            int mpi_rank, int mpi_size) MUST_USE;

#endif
