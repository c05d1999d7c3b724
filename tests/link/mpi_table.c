/*
 * mpi_table.c - mpi.def compared with a real mpi.h, when this is compiled
 */
#include <mpi.h>

#define MpiRequest MPI_Request
#define SAME(id, x, y) _Static_assert((x) == (y), #id ": " #x)

/* Handles are numbers or pointers, so their type is each function's own. */
#define CHECK(name, function)                                                  \
    static int check_##name(void) __attribute__((unused));                     \
    static int check_##name(void)                                              \
    {                                                                          \
        int(*f) function = name;                                               \
        return f != 0;                                                         \
    }
CHECK(MPI_Initialized, (int *))
CHECK(MPI_Init_thread, (int *, char ***, int, int *))
CHECK(MPI_Finalize, (void))
CHECK(MPI_Comm_rank, (MPI_Comm, int *))
CHECK(MPI_Comm_size, (MPI_Comm, int *))
CHECK(MPI_Comm_set_errhandler, (MPI_Comm, MPI_Errhandler))
CHECK(MPI_Isend,
      (const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))
CHECK(MPI_Irecv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))
CHECK(MPI_Test, (MPI_Request *, int *, MPI_Status *))
CHECK(MPI_Cancel, (MPI_Request *))

_Static_assert(sizeof(MPI_Request) <= 8, "a request");
_Static_assert(sizeof(MPI_Comm) <= sizeof(void *), "a handle");

#ifdef TABLE_OPEN_MPI
#define MPI_SYMBOLS(id, name, world, byte, errors, ignore, serialized)         \
    SAME(id, MPI_THREAD_SERIALIZED, serialized);
#include "runtime/cluster/mpi/mpi.def"
extern struct ompi_predefined_communicator_t ompi_mpi_comm_world;
extern struct ompi_predefined_datatype_t ompi_mpi_byte;
extern struct ompi_predefined_errhandler_t ompi_mpi_errors_return;
#endif

#ifdef TABLE_MPICH
#define MPICH_ROW 1
#define STANDARD_ROW 0
#define MPI_NUMBERS(id, name, world, byte, errors, ignore, serialized)         \
    SAME(id, !id##_ROW || MPI_COMM_WORLD == (world), 1);                       \
    SAME(id, !id##_ROW || MPI_BYTE == (byte), 1);                              \
    SAME(id, !id##_ROW || MPI_ERRORS_RETURN == (errors), 1);                   \
    SAME(id, !id##_ROW || MPI_THREAD_SERIALIZED == (serialized), 1);
#include "runtime/cluster/mpi/mpi.def"
#endif
