/*
 * http_test.c - the server of metrics in a process that has no files left
 */
#include "tests/unit/unit.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include "runtime/metrics/http.h"

enum { FILES = 64 };

static void
write_page(void *data, Str *out)
{
    (void)data;
    str_add(out, "all is well");
}

static double
cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
allow_files(rlim_t n)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void
ask(int fd, int port)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons((uint16_t)port)};
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(write(fd, request, sizeof request - 1),
                     sizeof request - 1);
}

static void
expect_page(int fd)
{
    char answer[512];
    ssize_t n = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
    assert_true(n > 0);
    answer[n] = 0;
    assert_non_null(strstr(answer, "all is well"));
}

/* Who comes is answered when there is a file again; until then nobody waits
 * for it in a loop that takes a core from the run. */
static void
a_server_without_files_sleeps(void **state)
{
    (void)state;
    RtHttp *server;
    RtHttpConfig config = {.host = "127.0.0.1",
                           .port = "0",
                           .path = "/metrics",
                           .type = "text/plain",
                           .write = write_page};
    assert_null(rt_http_open(&config, &server));
    int last = -1, client = socket(AF_INET, SOCK_STREAM, 0);
    allow_files(FILES);
    for (int fd; (fd = dup(client)) >= 0;)
        last = fd;
    double begun = cpu_seconds();
    ask(client, rt_http_port(server));
    nanosleep(&(struct timespec){.tv_nsec = 400 * 1000 * 1000}, NULL);
    assert_true(cpu_seconds() - begun < 0.1);
    close(last);
    expect_page(client);
    rt_http_close(server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_without_files_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
