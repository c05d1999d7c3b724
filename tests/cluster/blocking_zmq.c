/*
 * blocking_zmq.c - a libzmq of which one function does not return, or fails
 *
 * It hands every call to the library TEST_ZMQ.  In the process that has the
 * rank TEST_BLOCK_RANK ("": in the one that has none, the parent), the call
 * number TEST_BLOCK_AFTER + 1 of the function TEST_BLOCK makes the file
 * TEST_BLOCK_MARK and waits for ever.  With TEST_FAIL=once it fails instead,
 * with TEST_FAIL=ever all that follow do, too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static const char *
setting(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* Whether the call is to fail. */
static int
is_hurt(const char *name)
{
    static atomic_int calls;
    const char *fail = setting("TEST_FAIL");
    int after = atoi(setting("TEST_BLOCK_AFTER"));
    if (strcmp(name, setting("TEST_BLOCK")) != 0 ||
        strcmp(setting("TFD_RANK"), setting("TEST_BLOCK_RANK")) != 0)
        return 0;
    int call = atomic_fetch_add(&calls, 1);
    if (call < after || (call > after && strcmp(fail, "once") == 0))
        return 0;
    close(open(setting("TEST_BLOCK_MARK"), O_CREAT | O_WRONLY, 0600));
    while (!*fail)
        pause();
    errno = EIO;
    return 1;
}

static void *
find(const char *name)
{
    void *library = dlopen(setting("TEST_ZMQ"), RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "there is no %s in TEST_ZMQ\n", name);
        abort();
    }
    return found;
}

/* No function has more than six arguments, all of which are in registers. */
typedef long Call(long, long, long, long, long, long);

#define ZMQ_CALL(result, name, params)                                         \
    VISIBLE Call name;                                                         \
    long name(long a, long b, long c, long d, long e, long f)                  \
    {                                                                          \
        static _Atomic(void *) found;                                          \
        if (is_hurt(#name))                                                    \
            return _Generic((result *)NULL, int *: -1L, default: 0L);          \
        if (!atomic_load(&found))                                              \
            atomic_store(&found, find(#name));                                 \
        Call *call;                                                            \
        void *at = atomic_load(&found);                                        \
        memcpy(&call, &at, sizeof call);                                       \
        return call(a, b, c, d, e, f);                                         \
    }
#include "runtime/cluster/zmq/zmq.def"
#undef ZMQ_CALL
