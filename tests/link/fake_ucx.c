/*
 * fake_ucx.c - a libucp of which one call fails, for tests of what is refused
 *
 * FAKE_UCX is the call that fails; the others do nothing.
 */
#include <stdlib.h>
#include <string.h>

#define UcsStatus long
#define UcsRequest long
/* Of what it returns, more than that byte is not looked at. */
enum { NO_DEVICE = -8 };

static long
result_of(const char *call)
{
    const char *asked = getenv("FAKE_UCX");
    return asked && strcmp(asked, call) == 0 ? NO_DEVICE : 0;
}

#ifdef WITHOUT_ARM
#define ucp_worker_arm ucp_worker_arm_of_another_name
#endif
#define ucs_status_string fake_status_string
#define ucp_worker_get_address fake_get_address
#define UCX_CALL(result, name, params)                                         \
    long name(void);                                                           \
    long name(void)                                                            \
    {                                                                          \
        return result_of(#name);                                               \
    }
#include "runtime/link/ucx/ucx.def"
#undef ucs_status_string
#undef ucp_worker_get_address

const char *ucs_status_string(int status);
long ucp_worker_get_address(void *worker, void **out, size_t *bytes);

const char *
ucs_status_string(int status)
{
    return (signed char)status == NO_DEVICE ? "No such device" : "Success";
}

long
ucp_worker_get_address(void *worker, void **out, size_t *bytes)
{
    static char address[8];
    (void)worker;
    *out = address;
    *bytes = sizeof address;
    return result_of("ucp_worker_get_address");
}
