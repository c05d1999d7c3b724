/*
 * exchange.h - operations of several streams that are executed together
 *
 * For the fake NCCL, a library of its own: what it exports to that one.  An
 * exchange is one operation of a stream.  It has partners, on streams of other
 * devices, which become known as they are added; all of them are executed at
 * once, when each could be.  Until all are known those that ask for an event
 * behind it are told that it has not happened.
 */
#ifndef TFD_TESTS_CUDA_FAKE_EXCHANGE_H
#define TFD_TESTS_CUDA_FAKE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct Op;

enum { EXCHANGE_PARTNERS = 16 };

/* First all partners read, then all write. */
typedef enum ExchangePass { EXCHANGE_READS, EXCHANGE_WRITES } ExchangePass;

typedef struct Exchange Exchange;
struct Exchange {
    const char *call; /* for complaints */
    struct Op *op;    /* until it is executed */
    int missing;      /* partners, as parts of its work, that are not known */
    bool is_aborted;  /* it does nothing, for nobody */
    int num_partners;
    Exchange *partners[EXCHANGE_PARTNERS];
    bool receives[EXCHANGE_PARTNERS]; /* from it: what it did comes before */
    /* Partners of other processes: gives them what was read, once, and says
     * whether they have come; NULL: there are none. */
    bool (*meets)(Exchange *x);
    bool has_read;
    /* A part of the work; of EXCHANGE_WRITES the exchange is over then. */
    void (*run)(Exchange *x, ExchangePass pass);
    bool was_visited;
};

#define EXCHANGE_API __attribute__((visibility("default")))

/* The lock of the fake driver; everything else is called with it. */
EXCHANGE_API void fake_exchange_lock(void);
EXCHANGE_API void fake_exchange_unlock(void);
/* Behind what the stream has, of any context.  false: the driver ignores work.
 */
EXCHANGE_API void fake_exchange_add(Exchange *x, struct CUstream_st *stream);
/* Executes x and what comes before it, if that can be. */
EXCHANGE_API void fake_exchange_go_on(Exchange *x);
/* The bytes of an operand, read or written by x. */
EXCHANGE_API const uint8_t *fake_exchange_read(const Exchange *x,
                                               unsigned long long at, size_t n);
EXCHANGE_API uint8_t *fake_exchange_write(const Exchange *x,
                                          unsigned long long at, size_t n);
/* The number of the current context's device; -1: there is none. */
EXCHANGE_API int fake_exchange_device(void);
EXCHANGE_API uint64_t fake_exchange_random(uint64_t n);
/* A failure by request: what is not given back is no mistake any more. */
EXCHANGE_API void fake_exchange_note_failure(void);
EXCHANGE_API bool fake_exchange_has_failed(void);

#endif
