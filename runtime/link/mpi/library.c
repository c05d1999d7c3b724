/*
 * library.c - opens an MPI, and says what is wrong with it
 *
 * The family of the launcher comes first: a process that Open MPI's mpirun has
 * started is alone under another MPI, and says nothing.
 */
#include "runtime/link/mpi/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include "runtime/hal/library.h"
#include "runtime/link/mpi/mpi.h"

typedef struct Family {
    const char *name;
    const char *world, *byte, *errors_return; /* symbols; NULL: numbers */
    MpiHandle numbers[3];
    uintptr_t status_ignore;
    int serialized; /* MPI_THREAD_SERIALIZED */
} Family;

typedef enum FamilyId {
#define MPI_SYMBOLS(id, ...) FAMILY_##id,
#define MPI_NUMBERS(id, ...) FAMILY_##id,
#include "runtime/link/mpi/mpi.def"
#undef MPI_SYMBOLS
#undef MPI_NUMBERS
} FamilyId;

static const Family families[] = {
#define MPI_SYMBOLS(id, name, world, byte, errors, ignore, serialized)         \
    [FAMILY_##id] = {name, world, byte, errors, {0}, ignore, serialized},
#define MPI_NUMBERS(id, name, world, byte, errors, ignore, serialized)         \
    [FAMILY_##id] = {name,   NULL,      NULL, NULL, {world, byte, errors},     \
                     ignore, serialized},
#include "runtime/link/mpi/mpi.def"
#undef MPI_SYMBOLS
#undef MPI_NUMBERS
};

static bool
is_open_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

bool
rt_mpi_has_launcher(void)
{
    return is_open_mpi() || getenv("PMI_SIZE") || getenv("PMI_RANK") ||
           getenv("PMIX_RANK");
}

/* RTLD_GLOBAL: Open MPI opens its own parts, which need its symbols. */
static void *
open_by_name(const char *path)
{
    static const char *const open_mpi[] = {"libmpi.so.40", "libmpi_abi.so.1",
                                           "libmpi_abi.so.0", "libmpich.so.12",
                                           "libmpi.so.12"};
    static const char *const others[] = {"libmpi_abi.so.1", "libmpi_abi.so.0",
                                         "libmpich.so.12", "libmpi.so.12",
                                         "libmpi.so.40"};
    const char *const *names = is_open_mpi() ? open_mpi : others;
    void *library = NULL;
    if (path)
        return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    for (size_t i = 0; i < 5 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    return library;
}

static const RtLibraryCall calls[] = {
#define MPI_CALL(name, params) RT_LIBRARY_CALL(MpiLibrary, name),
#include "runtime/link/mpi/mpi.def"
#undef MPI_CALL
};

static Status
find_calls(void *library, MpiLibrary *mpi)
{
    const char *missing =
        rt_library_find(library, calls, sizeof calls / sizeof *calls, mpi);
    return missing ? status_new(STATUS_MACHINE, "this MPI has no %s", missing)
                   : OK;
}

static FamilyId
family_of(void *library)
{
    if (dlsym(library, "MPI_Abi_get_info"))
        return FAMILY_STANDARD;
    return dlsym(library, families[FAMILY_OPEN_MPI].world) ? FAMILY_OPEN_MPI
                                                           : FAMILY_MPICH;
}

static void
set_family(void *library, MpiLibrary *mpi)
{
    const Family *f = &families[family_of(library)];
    mpi->family = f->name;
    mpi->world = f->world ? (MpiHandle)dlsym(library, f->world) : f->numbers[0];
    mpi->byte = f->byte ? (MpiHandle)dlsym(library, f->byte) : f->numbers[1];
    mpi->errors_return = f->errors_return
                             ? (MpiHandle)dlsym(library, f->errors_return)
                             : f->numbers[2];
    mpi->status_ignore = (void *)f->status_ignore;
    mpi->serialized = f->serialized;
}

/* Main's thread initializes, the carrier's calls: not both at a time. */
static Status
initialize(const MpiLibrary *mpi)
{
    int flag = 0, provided = 0;
    mpi->MPI_Initialized(&flag);
    if (flag)
        return OK;
    if (mpi->MPI_Init_thread(NULL, NULL, mpi->serialized, &provided))
        return status_new(STATUS_MACHINE, "MPI_Init_thread fails (%s)",
                          mpi->family);
    if (provided < mpi->serialized)
        return status_new(STATUS_MACHINE,
                          "this MPI (%s) may be called by main's thread only: "
                          "tfd-run needs one with MPI_THREAD_SERIALIZED",
                          mpi->family);
    if (mpi->errors_return)
        mpi->MPI_Comm_set_errhandler(mpi->world, mpi->errors_return);
    return OK;
}

static Status
open_library(const char *path, MpiLibrary *mpi)
{
    void *library = open_by_name(path);
    if (!library)
        return status_new(path ? STATUS_INPUT : STATUS_MACHINE,
                          "cannot open an MPI library (--mpi PATH names one): "
                          "%s",
                          dlerror());
    TRY(find_calls(library, mpi));
    set_family(library, mpi);
    return initialize(mpi);
}

Status
rt_mpi_library_open(const char *path, const MpiLibrary **out)
{
    static MpiLibrary library;
    static bool is_open;
    if (!is_open)
        TRY(open_library(path, &library));
    is_open = true;
    *out = &library;
    return OK;
}
