/*
 * library.c - opens an MPI, and says what is wrong with it
 *
 * The family of the launcher comes first: a process that Open MPI's mpirun has
 * started is alone under another MPI, and says nothing.
 */
#include "runtime/cluster/mpi/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include "ir/base/arena.h"
#include "ir/base/str.h"
#include "ir/base/message.h"
#include "runtime/cluster/mpi/deadline.h"
#include "runtime/hal/library.h"

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
#include "runtime/cluster/mpi/mpi.def"
#undef MPI_SYMBOLS
#undef MPI_NUMBERS
} FamilyId;

static const Family families[] = {
#define MPI_SYMBOLS(id, name, world, byte, errors, ignore, serialized)         \
    [FAMILY_##id] = {name, world, byte, errors, {0}, ignore, serialized},
#define MPI_NUMBERS(id, name, world, byte, errors, ignore, serialized)         \
    [FAMILY_##id] = {name,   NULL,      NULL, NULL, {world, byte, errors},     \
                     ignore, serialized},
#include "runtime/cluster/mpi/mpi.def"
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

enum { NUM_NAMES = 5 };

static const char *const *
names_of_launcher(void)
{
    static const char *const open_mpi[NUM_NAMES] = {
        "libmpi.so.40", "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpich.so.12",
        "libmpi.so.12"};
    static const char *const others[NUM_NAMES] = {
        "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpich.so.12", "libmpi.so.12",
        "libmpi.so.40"};
    return is_open_mpi() ? open_mpi : others;
}

/* RTLD_GLOBAL: Open MPI opens its own parts, which need its symbols. */
static void *
open_path(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static Status
open_given(const char *path, void **library)
{
    *library = open_path(path);
    return *library ? OK
                    : status_new(STATUS_INPUT,
                                 "cannot open the MPI library of --mpi: %s",
                                 dlerror());
}

/* What it says of the library of the launcher's family, the first, tells most.
 */
static Status
open_by_name(void **library)
{
    const char *const *names = names_of_launcher();
    Arena *a = arena_new(NULL, "names of MPI");
    Str tried = str_new(a);
    *library = NULL;
    for (int i = 0; i < NUM_NAMES && !*library; i++) {
        *library = open_path(names[i]);
        if (!*library)
            str_addf(&tried, "%s%s", i ? "; " : "", dlerror());
    }
    Status st = OK;
    if (!*library)
        st = status_new(STATUS_MACHINE,
                        "there is no MPI library that can be opened (--mpi "
                        "PATH names one): %s",
                        message_part(str_text(&tried)));
    arena_release(a);
    return st;
}

static const RtLibraryCall calls[] = {
#define MPI_CALL(name, params) RT_LIBRARY_CALL(MpiLibrary, name),
#include "runtime/cluster/mpi/mpi.def"
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

static Status
check_level(const MpiLibrary *mpi, int provided)
{
    if (provided >= mpi->serialized)
        return OK;
    return status_new(STATUS_MACHINE,
                      "this MPI (%s) may be called by main's thread only: "
                      "tfd-run needs one with MPI_THREAD_SERIALIZED",
                      mpi->family);
}

/* Main's thread initializes, the carrier's calls: not both at a time. */
static Status
initialize(const MpiLibrary *mpi, double timeout)
{
    RtDeadline d;
    int flag = 0, provided = 0;
    mpi->MPI_Initialized(&flag);
    if (flag)
        return OK;
    TRY(rt_deadline_begin(&d, "MPI_Init_thread", mpi->family, timeout));
    int error = mpi->MPI_Init_thread(NULL, NULL, mpi->serialized, &provided);
    rt_deadline_end(&d);
    if (error)
        return status_new(STATUS_MACHINE, "MPI_Init_thread fails (%s)",
                          mpi->family);
    TRY(check_level(mpi, provided));
    if (mpi->errors_return)
        mpi->MPI_Comm_set_errhandler(mpi->world, mpi->errors_return);
    return OK;
}

static struct {
    MpiLibrary library;
    int num_users;
} own;

static Status
open_library(const char *path, double timeout)
{
    void *library;
    TRY(path ? open_given(path, &library) : open_by_name(&library));
    TRY(find_calls(library, &own.library));
    set_family(library, &own.library);
    return initialize(&own.library, timeout);
}

Status
rt_mpi_library_open(const char *path, double timeout, const MpiLibrary **out)
{
    if (own.num_users == 0)
        TRY(open_library(path, timeout));
    own.num_users++;
    *out = &own.library;
    return OK;
}

void
rt_mpi_library_close(double timeout)
{
    RtDeadline d;
    if (--own.num_users > 0)
        return;
    Status st =
        rt_deadline_begin(&d, "MPI_Finalize", own.library.family, timeout);
    own.library.MPI_Finalize();
    if (!st)
        rt_deadline_end(&d);
    status_free(st); /* it is bounded by the launcher then */
}

Status
rt_mpi_other_numbers(const MpiLibrary *mpi, int rank, int size, int mpi_rank,
                     int mpi_size)
{
    return status_new(
        STATUS_INPUT,
        "MPI says that rank %d is %d of %d, and the job has %d processes: is "
        "its launcher that of another MPI than %s?",
        rank, mpi_rank, mpi_size, size, mpi->family);
}
