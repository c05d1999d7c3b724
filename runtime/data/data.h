/*
 * data.h - input pipelines and distributed iterators
 *
 * A dataset (IrDataset) is a source and stages; an iterator (IrIter) is a
 * dataset divided among the replicas.  The caller provides element functions:
 * compiled code in tfd-run, the reference interpreter in tests.
 *
 * Sharding and rebatching are TensorFlow's (ir/dataset/sharding.h).  The
 * replicas of the module are divided among its input workers, each of which has
 * pipelines of its own: worker i of n determines its part of the data by its
 * number alone.
 *
 * A process of a run has some neighbouring replicas (local ones; numbers of
 * replicas are those of the module everywhere), and its iterators open the
 * pipelines of each worker that has one of them: one process alone has those of
 * all workers, and several processes may each have the same worker's, from
 * which each takes its replicas' parts (or rt_iter_share).  A step has data as
 * long as any replica has some, which only all processes together can tell:
 * they exchange rt_iter_local_rows and give each other's to rt_iter_set_rows.
 * States are archived worker by worker, so a checkpoint is the same for any
 * number of processes.
 */
#ifndef TFD_RUNTIME_DATA_DATA_H
#define TFD_RUNTIME_DATA_DATA_H

#include "ir/base/number/format.h"
#include "ir/base/status.h"
#include "ir/ir.h"
#include "runtime/checkpoint/archive.h"

/* A function of a dataset's stage.  in and out point to the elements of its
 * parameters and results; rows is the value of the batch symbol that their
 * shapes name, 0 if they name none.  Called by one thread at a time. */
typedef struct RtElementFn RtElementFn;

struct RtElementFn {
    Status (*call)(RtElementFn *f, void *const *in, void *const *out,
                   int64_t rows);
};

typedef struct RtDataClient RtDataClient;

/* The client of pipelines; both functions get `data`. */
struct RtDataClient {
    /* The function called name, which outlives the iterators; asked once a
     * stage, when the iterator is made. */
    RtElementFn *(*function)(RtDataClient *c, const char *name);
    /* Whether waits for elements must end, with status STATUS_STOPPED: called
     * by a thread while it waits.  NULL: never. */
    bool (*is_stopped)(RtDataClient *c);
};

typedef struct RtFileDealer RtFileDealer;

/* Whoever gives the files of a source to several workers, each to one of them.
 * Called by the thread of an iterator. */
struct RtFileDealer {
    /* The number of the file, among num of the source in its order, that is the
     * worker's file number `taken`, from 0, of a pass; num: there is none.  The
     * same question has the same answer.  names is a hash of the files' names,
     * which all workers have to have. */
    Status (*next)(RtFileDealer *d, RtDataClient *client, uint64_t pass,
                   int64_t taken, int64_t num, const char *names,
                   int64_t *file);
};

typedef struct RtDataOptions {
    const char *dir;         /* where relative paths of sources start */
    const FormatName *texts; /* params, for paths that are formats, */
    int num_texts;
    uint64_t seed;           /* --seed: for shuffles that state none */
    bool threads;            /* make elements ahead, in a thread an iterator */
    int first_local;         /* the first replica of this process, */
    int num_local;           /* and how many it has; 0: all, it is alone */
    int pipeline;            /* set by iterators: which of several, from 0 */
    int worker, num_workers; /* of a coordinator: which of how many this is,
                              * each with pipelines of its own; 0 of 0: it is
                              * alone */
    RtFileDealer *dealer;    /* outlives the iterator; NULL: a source has all of
                              * its files */
    RtDataClient *client;    /* outlives the iterator; NULL: no stage has a
                              * function, and everybody waits */
    int64_t *file_bytes; /* the sizes of opened files are added; may be NULL */
    /* To which the bytes of elements are added that stages keep and the plan
     * could not count (ir_stage_is_uncounted); may be NULL. */
    _Atomic int64_t *kept_bytes;
} RtDataOptions;

/* Whether the client, which may be NULL, cancels waits. */
bool rt_data_is_stopped(RtDataClient *c);

/* The status that ends a wait which is cancelled. */
Status rt_data_stopped(void) MUST_USE;

typedef struct RtIter RtIter;

/* An iterator of module m for the replicas of this process.  Opens the sources
 * of their workers: a file that is missing or of another type than stated is an
 * error that names file, stage and source line.  m and iter must outlive it. */
Status rt_iter_new(const IrModule *m, const IrIter *iter,
                   const RtDataOptions *options, RtIter **out) MUST_USE;

/* Processes of one machine read a worker's data once: the one that has the
 * worker's first replica makes the steps, and the others take them from memory
 * that all map.  The bytes of that memory of which this process is the maker,
 * or one that takes; 0: there is none.  Then, before the first open and before
 * a state is read, the makers' memory, of zeros and on a cache line; the
 * maker's call comes first. */
size_t rt_iter_shared_bytes(const RtIter *it, bool takes);
void rt_iter_share(RtIter *it, bool takes, char *memory);

/* A file that a source reads, as it was when the iterator was made. */
typedef struct RtDataFile {
    Loc loc;          /* of the source */
    const char *name; /* from the data folder; lasts as long as the iterator */
    int64_t size;     /* on disk */
} RtDataFile;

typedef void RtTakeFile(void *data, const RtDataFile *f);

/* Whether each worker has files of its own: pipelines of its own, or sharding
 * off, where none relies on what others read. */
bool rt_iter_has_own_files(const RtIter *it);
/* The files from which a worker that is open here reads, in their order: all,
 * also those that it leaves to others. */
void rt_iter_files(const RtIter *it, int worker, RtTakeFile *take, void *data);

/* Starts pass `number` of the dataset from the beginning: reshuffling depends
 * on the number, and on nothing else that happened before. */
Status rt_iter_open(RtIter *it, uint64_t number) MUST_USE;

/* The number of times it was opened. */
uint32_t rt_iter_passes(const RtIter *it);

/* Whether a replica, of this process or of another, has data for another step:
 * where other processes have replicas, after rt_iter_set_rows for that step.
 * An error ends the pass; after a cancelled wait the iterator can only be
 * closed. */
Status rt_iter_has_next(RtIter *it, bool *out) MUST_USE;

/* The rows of each local replica in the step after the current one, in order,
 * num_local of them; -1: it has no data.  Waits for that step; errors as those
 * of rt_iter_has_next.  rt_iter_is_ahead tells whether it would wait. */
Status rt_iter_local_rows(RtIter *it, int64_t *rows) MUST_USE;

/* Gives it the rows of every replica of the module in that step, -1 for one
 * without data, as the processes that have them know: once for each step,
 * before rt_iter_has_next and rt_iter_next.  A process alone need not. */
void rt_iter_set_rows(RtIter *it, const int64_t *rows);

/* Moves to the next step's data: an error when there is none. */
Status rt_iter_next(RtIter *it) MUST_USE;

/* Of the current step: a component's bytes for a replica of a worker that is
 * open here (row-major, aligned to 64, valid until the next call of
 * rt_iter_next or rt_iter_open), the rows n of any replica, and of all replicas
 * N. */
const void *rt_iter_data(const RtIter *it, int replica, int component);
int64_t rt_iter_rows(const RtIter *it, int replica);
int64_t rt_iter_all_rows(const RtIter *it);

/* Of the steps after the current one, number k from 0: whether it is there
 * already, as all before it are, or, after a wait of a second at most for a
 * pipeline on a thread of its own, is now; its data stay where they are until
 * the call of rt_iter_next after the one that takes it, or of rt_iter_open. */
bool rt_iter_is_ahead(RtIter *it, int k, bool waits);
/* Of that step, and of a replica of a worker that is open here. */
const void *rt_iter_next_data(const RtIter *it, int k, int replica,
                              int component);
int64_t rt_iter_next_rows(const RtIter *it, int k, int replica);

/* Whether the pipelines of that worker, from 0, are open in this process. */
bool rt_iter_has_worker(const RtIter *it, int worker);

/* The state of one worker, as rt_iter_archive_worker wrote it. */
typedef struct RtWorkerState {
    const char *bytes;
    size_t len;
} RtWorkerState;

/* Archives the position of the iterator: passes and, worker by worker, steps
 * made in advance and the state of every stage.  Of a worker that is not open
 * here, a state that is written has others[worker], from a process where it is,
 * and one that is read is skipped; others may be NULL if none is needed.
 * One that reads must be new; if the state does not fit (rt_archive_end) it can
 * only be closed.  The current step is not in it.  An error is the machine's
 * (no thread), or that somebody asked to stop while a step was being made. */
Status rt_iter_archive(RtIter *it, RtArchive *ar,
                       const RtWorkerState *others) MUST_USE;

/* Writes the state of a worker that is open here, for the process that writes
 * the checkpoint. */
Status rt_iter_archive_worker(RtIter *it, int worker, RtArchive *ar) MUST_USE;

/* Ends its thread and frees it.  NULL is allowed. */
void rt_iter_close(RtIter *it);

#endif
