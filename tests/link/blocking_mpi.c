/*
 * blocking_mpi.c - MPICH, of which MPI_Test at some time never returns
 *
 * BLOCK_MPI="1 2.5 tfd-carrier": in the process of rank 1, 2.5 seconds after
 * its first call, and only in threads of that name, if there is one.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void *
find(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen("libmpich.so.12", RTLD_NOW | RTLD_GLOBAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no %s of libmpich.so.12\n", name);
        _exit(3);
    }
    return found;
}

#define FORWARD(name, params, args)                                            \
    int name params;                                                           \
    int name params                                                            \
    {                                                                          \
        static int(*real) params;                                              \
        if (!real)                                                             \
            *(void **)&real = find(#name);                                     \
        return real args;                                                      \
    }

FORWARD(MPI_Initialized, (int *flag), (flag))
FORWARD(MPI_Init_thread, (int *argc, char ***argv, int required, int *provided),
        (argc, argv, required, provided))
FORWARD(MPI_Finalize, (void), ())
FORWARD(MPI_Comm_rank, (int comm, int *rank), (comm, rank))
FORWARD(MPI_Comm_size, (int comm, int *size), (comm, size))
FORWARD(MPI_Comm_set_errhandler, (int comm, int handler), (comm, handler))
FORWARD(MPI_Isend,
        (const void *from, int count, int type, int to, int tag, int comm,
         int *request),
        (from, count, type, to, tag, comm, request))
FORWARD(MPI_Irecv,
        (void *to, int count, int type, int from, int tag, int comm,
         int *request),
        (to, count, type, from, tag, comm, request))
FORWARD(MPI_Cancel, (int *request), (request))

static double
seconds(void)
{
    static double first;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    first = first > 0 ? first : now;
    return now - first;
}

static bool
blocks(void)
{
    const char *asked = getenv("BLOCK_MPI"), *rank = getenv("PMI_RANK");
    char thread[32] = "", own[32] = "";
    int of;
    double after;
    prctl(PR_GET_NAME, own);
    return asked && rank &&
           sscanf(asked, "%d %lf %31s", &of, &after, thread) >= 2 &&
           atoi(rank) == of && seconds() >= after &&
           (!*thread || strcmp(thread, own) == 0);
}

int MPI_Test(int *request, int *flag, void *status);

int
MPI_Test(int *request, int *flag, void *status)
{
    static int (*real)(int *, int *, void *);
    if (!real)
        *(void **)&real = find("MPI_Test");
    while (blocks())
        pause();
    return real(request, flag, status);
}
