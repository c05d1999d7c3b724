/*
 * blocking_zmq.c - a libzmq of which one function does not return
 *
 * It hands every call to the library TEST_ZMQ.  In the process that has the
 * rank TEST_BLOCK_RANK ("": in the one that has none, the parent), the call
 * number TEST_BLOCK_AFTER + 1 of the function TEST_BLOCK makes the file
 * TEST_BLOCK_MARK and waits for ever.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
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

static void
block_here(const char *name)
{
    static atomic_int calls;
    if (strcmp(name, setting("TEST_BLOCK")) != 0 ||
        strcmp(setting("TFD_RANK"), setting("TEST_BLOCK_RANK")) != 0 ||
        atomic_fetch_add(&calls, 1) < atoi(setting("TEST_BLOCK_AFTER")))
        return;
    close(open(setting("TEST_BLOCK_MARK"), O_CREAT | O_WRONLY, 0600));
    for (;;)
        pause();
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
        block_here(#name);                                                     \
        if (!atomic_load(&found))                                              \
            atomic_store(&found, find(#name));                                 \
        Call *call;                                                            \
        void *at = atomic_load(&found);                                        \
        memcpy(&call, &at, sizeof call);                                       \
        return call(a, b, c, d, e, f);                                         \
    }
#include "runtime/cluster/zmq/zmq.def"
#undef ZMQ_CALL
