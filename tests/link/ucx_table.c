/*
 * ucx_table.c - ucx.def under the real headers of UCX
 *
 * Nothing here runs: it compiles where each function has the result and
 * parameters, each constant the value, and each field the place and size that
 * the table and library.h say.
 */
#include <stddef.h>
#include <ucp/api/ucp.h>
#include "runtime/link/ucx/library.h"

#define UCX_VALUE(ours, theirs, value)                                         \
    _Static_assert((int)(theirs) == (value), #theirs " has another value");
#include "runtime/link/ucx/ucx.def"
#undef UCX_VALUE

#define UCX_FIELD(ours, theirs, field)                                         \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, field) &&         \
                       sizeof(((ours *)0)->field) ==                           \
                           sizeof(((theirs *)0)->field) &&                     \
                       sizeof(ours) >= sizeof(theirs),                         \
                   #theirs "." #field " is elsewhere");
#include "runtime/link/ucx/ucx.def"
#undef UCX_FIELD

_Static_assert(sizeof(ucs_status_t) == sizeof(UcsStatus),
               "ucs_status_t has another size");
_Static_assert(UCP_API_MAJOR == 1, "UCX has another interface");

/* As the headers call them. */
#define UcsStatus ucs_status_t
#define UcsRequest ucs_status_ptr_t
#define UcpParams ucp_params_t
#define UcpConfig ucp_config_t
#define UcpContext struct ucp_context
#define UcpWorker struct ucp_worker
#define UcpWorkerParams ucp_worker_params_t
#define UcpEp struct ucp_ep
#define UcpEpParams ucp_ep_params_t
#define UcpAddress ucp_address_t
#define UcpRequestParam ucp_request_param_t
#define UCX_CALL(result, name, params)                                         \
    _Static_assert(                                                            \
        __builtin_types_compatible_p(__typeof__(name), result params),         \
        #name " has other parameters, or another result");
#include "runtime/link/ucx/ucx.def"
