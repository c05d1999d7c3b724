/*
 * library.h - UCX, opened by name
 *
 * tfd-run does not link it, and its headers are not needed to build: what is
 * used of its types is declared here.  A structure says by its mask which of
 * its fields are set, so those behind them are only room.
 */
#ifndef TFD_RUNTIME_LINK_UCX_LIBRARY_H
#define TFD_RUNTIME_LINK_UCX_LIBRARY_H

#include <stddef.h>
#include <stdint.h>
#include "ir/base/status.h"

typedef signed char UcsStatus; /* an enumeration of one byte */
/* NULL: it has ended; an UcsStatus below 0; or the request. */
typedef void *UcsRequest;
typedef struct ucp_config UcpConfig;
typedef struct ucp_context UcpContext;
typedef struct ucp_worker UcpWorker;
typedef struct ucp_address UcpAddress;
typedef struct ucp_ep UcpEp;

typedef struct UcpParams {
    uint64_t field_mask, features, rest[30];
} UcpParams;

typedef struct UcpWorkerParams {
    uint64_t field_mask;
    uint32_t thread_mode, unused;
    uint64_t rest[62];
} UcpWorkerParams;

typedef struct UcpEpParams {
    uint64_t field_mask;
    const UcpAddress *address;
    uint64_t rest[30];
} UcpEpParams;

typedef struct UcpRequestParam {
    uint32_t op_attr_mask, flags;
    uint64_t rest[31];
} UcpRequestParam;

enum {
#define UCX_VALUE(ours, theirs, value) ours = value,
#include "runtime/link/ucx/ucx.def"
#undef UCX_VALUE
};

typedef struct UcxLibrary {
#define UCX_CALL(result, name, params) result(*name) params;
#include "runtime/link/ucx/ucx.def"
#undef UCX_CALL
} UcxLibrary;

/* The functions; opened once in a process and never closed.  Main's thread. */
Status rt_ucx_library_open(const UcxLibrary **out) MUST_USE;

/* OK, or the failure of a call. */
Status rt_ucx_check(const UcxLibrary *ucx, const char *call,
                    UcsStatus status) MUST_USE;

#endif
