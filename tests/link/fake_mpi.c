/*
 * fake_mpi.c - an MPI with the numbers of MPICH, for tests of what is refused
 *
 * FAKE_MPI is the call that fails, or "threads": it gives no more than one;
 * "size": another number of processes; "hang": MPI_Init_thread does not return;
 * "stuck": MPI_Test does not; "interrupt": it raises one.  No message ever
 * arrives.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int MPI_Initialized(int *flag);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Finalize(void);
int MPI_Comm_rank(int comm, int *rank);
int MPI_Comm_size(int comm, int *size);
int MPI_Comm_set_errhandler(int comm, int handler);
int MPI_Isend(const void *from, int count, int type, int to, int tag, int comm,
              int *request);
int MPI_Irecv(void *to, int count, int type, int from, int tag, int comm,
              int *request);
int MPI_Test(int *request, int *flag, void *status);
#ifndef WITHOUT_CANCEL
int MPI_Cancel(int *request);
#endif

static int
fails(const char *call)
{
    const char *asked = getenv("FAKE_MPI");
    return asked && strcmp(asked, call) == 0;
}

int
MPI_Initialized(int *flag)
{
    *flag = 0;
    return 0;
}

int
MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc;
    (void)argv;
    while (fails("hang"))
        pause();
    *provided = fails("threads") ? 0 : required;
    return fails("MPI_Init_thread");
}

int
MPI_Finalize(void)
{
    return 0;
}

int
MPI_Comm_rank(int comm, int *rank)
{
    (void)comm;
    *rank = 0;
    return 0;
}

int
MPI_Comm_size(int comm, int *size)
{
    (void)comm;
    *size = fails("size") ? 1 : 2;
    return 0;
}

int
MPI_Comm_set_errhandler(int comm, int handler)
{
    (void)comm;
    (void)handler;
    return 0;
}

int
MPI_Isend(const void *from, int count, int type, int to, int tag, int comm,
          int *request)
{
    (void)from, (void)count, (void)type, (void)to, (void)tag, (void)comm;
    *request = 1;
    return fails("MPI_Isend");
}

int
MPI_Irecv(void *to, int count, int type, int from, int tag, int comm,
          int *request)
{
    (void)to, (void)count, (void)type, (void)from, (void)tag, (void)comm;
    *request = 1;
    return fails("MPI_Irecv");
}

int
MPI_Test(int *request, int *flag, void *status)
{
    (void)request;
    (void)status;
    *flag = 0;
    while (fails("stuck"))
        pause();
    if (fails("interrupt"))
        raise(SIGTERM);
    return fails("MPI_Test");
}

#ifndef WITHOUT_CANCEL
int
MPI_Cancel(int *request)
{
    (void)request;
    return 0;
}
#endif
