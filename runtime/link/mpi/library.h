/*
 * library.h - an MPI, opened by name
 */
#ifndef TFD_RUNTIME_LINK_MPI_LIBRARY_H
#define TFD_RUNTIME_LINK_MPI_LIBRARY_H

#include <stdint.h>
#include "ir/base/status.h"

/* A pointer or a number, as the family has it: both travel in a register. */
typedef uintptr_t MpiHandle;
/* As large as that of any family. */
typedef uint64_t MpiRequest;

typedef struct MpiLibrary {
#define MPI_CALL(name, params) int(*name) params;
#include "runtime/link/mpi/mpi.def"
#undef MPI_CALL
    const char *family;
    MpiHandle world, byte, errors_return; /* 0: there is none */
    void *status_ignore;
    int serialized;
} MpiLibrary;

/* Opened once in a process, and initialized; never closed. */
Status rt_mpi_library_open(const char *path, const MpiLibrary **out) MUST_USE;

#endif
