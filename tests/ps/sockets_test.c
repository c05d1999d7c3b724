/*
 * sockets_test.c - sockets of a parameter-server job that cannot be opened
 */
#include "tests/unit/status.h"

#include <errno.h>
#include <unistd.h>
#include "runtime/ps/wire/sockets.h"

enum { MOST_SECONDS = 20 }; /* of a context that waits for a socket */

static int
no_option(void *socket, int option, void *value, size_t *size)
{
    (void)socket, (void)option, (void)value, (void)size;
    errno = EMFILE;
    return -1;
}

/* A libzmq without the descriptors of its sockets. */
static void
open_net(RtPsNet *net, const uint8_t *key, RtZmq *zmq)
{
    assert_null(rt_ps_net_open(net, key));
    *zmq = *net->zmq;
    zmq->zmq_getsockopt = no_option;
    net->zmq = zmq;
}

static void
a_socket_without_a_descriptor_is_closed(void **state)
{
    RtPsNet net;
    RtZmq zmq;
    RtPsSocket socket;
    (void)state;
    alarm(MOST_SECONDS);
    open_net(&net, NULL, &zmq);
    assert_status_says(rt_ps_connect(&net, "tcp://127.0.0.1:9", &socket),
                       STATUS_MACHINE, "a socket has no descriptor: ");
    rt_ps_net_close(&net);
    alarm(0);
}

static void
a_listener_without_a_descriptor_is_closed(void **state)
{
    static const uint8_t key[RT_KEY_BYTES] = {1};
    const uint8_t *const keys[] = {NULL, key};
    (void)state;
    alarm(MOST_SECONDS);
    for (int i = 0; i < 2; i++) {
        RtPsNet net;
        RtZmq zmq;
        RtPsListener l;
        open_net(&net, keys[i], &zmq);
        assert_status_says(rt_ps_listen(&net, "127.0.0.1:0", &l),
                           STATUS_MACHINE, "a socket has no descriptor: ");
        rt_ps_listener_close(&l);
        rt_ps_net_close(&net);
    }
    alarm(0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_without_a_descriptor_is_closed),
        cmocka_unit_test(a_listener_without_a_descriptor_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
