/*
 * fake.h - what the files of the fake CUDA driver share
 *
 * All of its state is one world under one lock, which every call takes.  Calls
 * only add operations to streams; they are executed, in an order that the seed
 * chooses among those that streams and events allow, when somebody asks for an
 * event and is to be told that it has happened.
 *
 * Operation n of stream s has clock[s] = n; clock[t] of it is how many
 * operations of stream t come before it.  So an operation can be executed when
 * that many of each t have been, and two operations are ordered if one is in
 * the other's clock.
 */
#ifndef TFD_TESTS_CUDA_FAKE_FAKE_H
#define TFD_TESTS_CUDA_FAKE_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#ifdef HAS_CUDA_H
#include <cuda.h>
/* Drivers keep the one without _v2. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent begin,
                                    CUevent end);
#else
#include "runtime/hal/cuda/api.h"
#define CUDA_CALL(name, params) CUresult name params;
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL
#endif
#include "tests/cuda/ptx/ptx.h"

enum {
    MAX_DEVICES = 16,
    USUAL_PEERS = 8,   /* of a device, without a switch between them */
    MAX_STREAMS = 128, /* at the same time, with the branches of graphs */
    MAX_CHAINS = 32,   /* streams of a capture */
    MAX_OPTIONS = 512,
    POISON = 0xa5
};

typedef struct Device Device;

/* ---- options: TFD_FAKE_CUDA=devices:2,seed:7 ----------------------------- */

typedef struct FakeOptions {
    int devices;
    uint64_t seed;
    size_t memory; /* bytes of a device */
    int version, capability;
    int threads;   /* that a processor has room for */
    char fail[64]; /* the call that fails, and which of them */
    int fail_number;
    int fail_error;
    bool count;    /* print counts at exit */
    bool no_peers; /* no device can access another one's memory */
    int near;      /* only those whose numbers differ by so much can */
    int peers;     /* whose memory a device can access at the same time */
    int pitch;     /* the most bytes from a row to the next in a copy */
} FakeOptions;

/* ---- operations ---------------------------------------------------------- */

typedef struct Mark {
    int stream;
    uint64_t number; /* 0: none */
} Mark;

typedef enum OpKind {
    OP_HTOD,
    OP_DTOH,
    OP_DTOD,
    OP_ROWS, /* of memory that the device reaches */
    OP_SET,
    OP_KERNEL,
    OP_CALL,
    OP_EXCHANGE, /* with operations of other streams: exchange.h */
    OP_NOTHING,  /* a mark, or a wait */
    NUM_OPS
} OpKind;

/* What an operation of a graph was captured for: serial numbers, since another
 * allocation may come to have the address. */
typedef struct Uses {
    uint64_t to, from, pinned, module;
} Uses;

typedef struct Op {
    OpKind kind;
    const char *call; /* the driver's function */
    struct Op *next;  /* in the stream */
    Mark mark;
    uint64_t clock[MAX_STREAMS];
    Device *device;
    CUdeviceptr to, from;
    void *host_to;
    const void *host_from;
    size_t bytes;
    size_t rows, to_pitch, from_pitch; /* of OP_ROWS: so many bytes each */
    uint64_t hash;                     /* of what host_from points to */
    unsigned value;                    /* of OP_SET: so many bytes of it */
    unsigned value_bytes;
    bool is_peer; /* from one device to another */
    CUmodule module;
    const PtxKernel *kernel;
    unsigned grid[3], block[3], shared;
    unsigned char *params;
    CUhostFn function;
    struct Exchange *exchange;
    CUevent event; /* of OP_NOTHING: one that takes the time, or NULL */
    void *data;
    Uses uses;
} Op;

typedef struct Capture Capture;

/* Of what is captured: number n of a chain, which is a stream of the capture,
 * and how many of each chain come before it. */
typedef struct Place {
    int chain;
    uint64_t clock[MAX_CHAINS];
} Place;

struct CUstream_st {
    CUcontext context;
    int slot; /* its component of clocks */
    Op *first, *last;
    uint64_t clock[MAX_STREAMS]; /* of its last operation, and waits since */
    Capture *capture;            /* that it takes part in */
    Place captured;              /* in it, its last operation */
    /* where launches of graphs execute what is not on their first chain */
    CUstream branches[MAX_CHAINS];
};

struct CUevent_st {
    CUcontext context;
    bool takes_time, is_destroyed;
    double seconds; /* when it happened */
    Mark at;
    uint64_t clock[MAX_STREAMS];
    uint64_t capture; /* serial number of the one that recorded it last, or 0 */
    Place captured;
};

struct CUmod_st {
    uint64_t serial;
    CUcontext context;
    struct CUmod_st *next;
    PtxModule *module;
    struct CUfunc_st *functions;
};

struct CUfunc_st {
    struct CUmod_st *module;
    const PtxKernel *kernel;
    const char *name;
    unsigned dynamic_shared; /* bytes that launches have leave for */
    bool is_loaded;          /* by a question or a launch: drivers do it late */
    struct CUfunc_st *next;
};

/* ---- memory -------------------------------------------------------------- */

typedef struct History History;

/* Bytes from begin to the next run that have one history; NULL: none. */
typedef struct Run {
    size_t begin;
    History *history;
} Run;

/* The address is inaccessible; the same bytes are at host.  Pinned memory that
 * all devices reach is accessible. */
typedef struct Memory {
    uint64_t serial;
    CUcontext context;
    bool is_pinned;
    CUdeviceptr at;
    size_t bytes, mapped;
    uint8_t *host, *valid;
    uint8_t *pages; /* that a launch has touched */
    bool is_found;  /* by the launch that is executed */
    struct Memory *next_found;
    Run *runs;
    int num_runs, cap_runs;
    struct Memory *next;
} Memory;

typedef struct Pinned {
    uint64_t serial;
    CUcontext context;
    void *at;
    size_t bytes;
    struct Pinned *next;
} Pinned;

/* ---- devices ------------------------------------------------------------- */

struct CUctx_st {
    Device *device;
};

struct Device {
    int number;
    int retained;
    struct CUctx_st context;
    size_t used;
    /* that are there */
    int streams, events, modules, memories, pinned, graphs;
    uint64_t peers; /* a bit for each device whose memory it may access */
};

typedef struct Counts {
    unsigned long long graph_launches, nodes;
    unsigned long long ops[NUM_OPS], bytes[NUM_OPS];
} Counts;

typedef struct World {
    FakeOptions options;
    bool is_initialised;
    CUresult lost;   /* what every call says, once one has failed for good */
    bool has_failed; /* by request */
    uint64_t random;
    Device devices[MAX_DEVICES];
    CUstream streams[MAX_STREAMS]; /* by slot */
    int num_slots;                 /* that were ever used */
    uint64_t executed[MAX_STREAMS], added[MAX_STREAMS];
    uint64_t seen[MAX_STREAMS]; /* by the host: what it adds comes later */
    Memory *memories;
    Pinned *pinned;
    struct CUmod_st *modules;
    uint64_t serials; /* given so far, to whatever has one */
    PtxMachine *machine;
    Counts counts;
} World;

extern World fake_world;

/* Reads the options, once. */
void fake_options(FakeOptions *out);
/* "fake driver: ...", and the end of the process. */
_Noreturn void fake_complain(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
void fake_count(Counts *counts, const Op *op);
uint64_t fake_random(uint64_t n);
/* The same text, for ever: modules are unloaded before what they wrote. */
const char *fake_keep(const char *name);
uint64_t fake_hash(const void *at, size_t n);
void *fake_alloc(size_t n);

/* ---- memory (memory.c) --------------------------------------------------- */

CUresult fake_memory_new(CUcontext context, size_t bytes, bool is_pinned,
                         CUdeviceptr *out);
void fake_memory_free(Memory *m);
/* Whether work of the device may use it. */
bool fake_reaches(const Device *d, const Memory *m);
/* That contains n bytes at an address; NULL: none does. */
Memory *fake_memory_find(CUdeviceptr at, size_t n);
/* That contains n bytes of pinned memory; NULL: none does. */
Pinned *fake_pinned_find(const void *at, size_t n);
/* Complains of memory and functions that an operation names and that are not
 * there, or no longer, or another device's; notes which they are. */
void fake_check_uses(Op *op);
/* The bytes for an operation, or a complaint. */
uint8_t *fake_read(const Op *op, CUdeviceptr at, size_t n);
uint8_t *fake_write(const Op *op, CUdeviceptr at, size_t n);
void fake_run_kernel(const Op *op);

/* ---- histories (history.c) ----------------------------------------------- */

void fake_history_open(Memory *m);
void fake_history_close(Memory *m);
/* The operation reads or writes n bytes from a byte on, n > 0; complains if no
 * event orders it after those that did before. */
void fake_note_read(Memory *m, const Op *op, size_t at, size_t n);
void fake_note_write(Memory *m, const Op *op, size_t at, size_t n);

/* ---- order (order.c) ----------------------------------------------------- */

/* Whether a comes before b, or nothing is a. */
bool fake_is_before(Mark a, const Op *b);
/* A component of clocks for a stream that begins. */
void fake_open_slot(CUstream stream);
void fake_close_slot(CUstream stream);
void fake_add(CUstream stream, const Op *op);
/* Executes what the mark needs, of which clock says how many of each stream, as
 * far as exchanges have their partners. */
void fake_run_until(Mark at, const uint64_t *clock);
/* Raises a clock to another one. */
void fake_join(uint64_t *clock, const uint64_t *other);
bool fake_has_happened(Mark at);
/* Adds to an operation's clock what the exchanges before it have received. */
void fake_complete_clock(Op *op);
int fake_num_pending(CUcontext context);
/* Whether there is one, of those that have not been executed. */
bool fake_is_pending(bool (*is)(const Op *op, const void *data),
                     const void *data);

/* ---- exchanges (exchange.c) ---------------------------------------------- */

/* Whether it and all of its partners can, by themselves. */
bool fake_exchange_can_go_on(const Op *op, bool (*can)(const Op *op));
/* Executes and removes it with its partners. */
void fake_exchange_execute(Op *op, void (*remove)(const Op *op));
/* Raises the numbers of operations of each stream to what exchanges among them
 * need.  Whether there are any. */
bool fake_exchanges_need(uint64_t *need);
void fake_forget_exchanges(int slot);

/* ---- contexts (devices.c) ------------------------------------------------ */

int fake_num_retained(void);

#endif
