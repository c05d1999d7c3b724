/*
 * http.c - a server of one page
 */
#include "runtime/metrics/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "ir/base/thread.h"
#include "runtime/hal/system.h"

enum {
    CLIENTS = 16,
    REQUEST_BYTES = 4096, /* its line and headers */
    TURN_MS = 500
};

static const double patience = 3; /* seconds for a request and its answer */

typedef struct Client {
    int fd; /* -1: none */
    double since;
    size_t got;
    char request[REQUEST_BYTES];
    Arena *arena; /* of the answer; NULL: it is not written yet */
    Str answer;
    size_t sent;
} Client;

struct RtHttp {
    Arena *arena;
    RtHttpConfig config;
    int listener, bell, port;
    pthread_t thread;
    bool has_thread;
    bool lacks_files; /* to accept who has come */
    Client clients[CLIENTS];
};

/* ---- answers ------------------------------------------------------------ */

/* Of a request line. */
typedef struct Word {
    const char *at;
    size_t len;
} Word;

static bool
is(Word w, const char *text)
{
    return w.len == strlen(text) && memcmp(w.at, text, w.len) == 0;
}

/* Up to the next space or the line's end, which *at is then behind. */
static Word
next_word(const char **at, const char *end)
{
    Word w = {*at, 0};
    while (w.at + w.len < end && w.at[w.len] != ' ' && w.at[w.len] != '\r' &&
           w.at[w.len] != '\n')
        w.len++;
    *at = w.at + w.len;
    if (*at < end && **at == ' ')
        ++*at;
    return w;
}

static void
answer(Client *c, const char *what, const char *type, const Str *page,
       bool has_body)
{
    str_addf(&c->answer,
             "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
             "Connection: close\r\n\r\n",
             what, type, page->len,
             strncmp(what, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "");
    if (has_body)
        str_addn(&c->answer, page->data, page->len);
}

static void
refuse(Client *c, const char *what, bool has_body)
{
    Str page = str_new(c->arena);
    str_addf(&page, "%s\n", what);
    answer(c, what, "text/plain", &page, has_body);
}

/* What follows a question mark says nothing here. */
static Word
path_of(Word target)
{
    const char *query = memchr(target.at, '?', target.len);
    if (query)
        target.len = (size_t)(query - target.at);
    return target;
}

/* The request is there, or what is there of it is too long. */
static void
answer_request(RtHttp *h, Client *c, bool is_whole)
{
    const char *at = c->request, *end = c->request + c->got;
    Word method = next_word(&at, end);
    Word target = path_of(next_word(&at, end));
    Word version = next_word(&at, end);
    bool is_head = is(method, "HEAD");
    c->arena = arena_new(NULL, "a page");
    c->answer = str_new(c->arena);
    if (!is_whole)
        refuse(c, "431 Request Header Fields Too Large", true);
    else if (!is(version, "HTTP/1.1") && !is(version, "HTTP/1.0"))
        refuse(c, "400 Bad Request", true);
    else if (!is_head && !is(method, "GET"))
        refuse(c, "405 Method Not Allowed", true);
    else if (!is(target, h->config.path))
        refuse(c, "404 Not Found", !is_head);
    else {
        Str page = str_new(c->arena);
        h->config.write(h->config.data, &page);
        answer(c, "200 OK", h->config.type, &page, !is_head);
    }
}

/* ---- clients ------------------------------------------------------------ */

static void
hang_up(Client *c)
{
    close(c->fd);
    c->fd = -1;
    if (c->arena)
        arena_release(c->arena);
    c->arena = NULL;
}

static bool
has_ended(const Client *c)
{
    return memmem(c->request, c->got, "\r\n\r\n", 4) ||
           memmem(c->request, c->got, "\n\n", 2);
}

static void
receive(RtHttp *h, Client *c)
{
    ssize_t n = recv(c->fd, c->request + c->got, REQUEST_BYTES - c->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(c);
        return;
    }
    c->got += (size_t)n;
    bool is_whole = has_ended(c);
    if (is_whole || c->got == REQUEST_BYTES)
        answer_request(h, c, is_whole);
}

/* Some of the rest of what it sent is read, since the system may take the
 * answer back for bytes that nobody has read. */
static void
send_answer(Client *c)
{
    enum { MOST_READS = 64 };
    char rest[REQUEST_BYTES];
    ssize_t n = send(c->fd, c->answer.data + c->sent, c->answer.len - c->sent,
                     MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->sent += n > 0 ? (size_t)n : 0;
    if (n > 0 && c->sent < c->answer.len)
        return;
    shutdown(c->fd, SHUT_WR);
    for (int i = 0; i < MOST_READS && recv(c->fd, rest, sizeof rest, 0) > 0;
         i++)
        continue;
    hang_up(c);
}

static Client *
free_client(RtHttp *h)
{
    for (int i = 0; i < CLIENTS; i++)
        if (h->clients[i].fd < 0)
            return &h->clients[i];
    return NULL;
}

static void
accept_client(RtHttp *h)
{
    Client *c = free_client(h);
    if (!c)
        return;
    int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    h->lacks_files = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd >= 0)
        *c = (Client){.fd = fd, .since = clock_seconds()};
}

/* Who cannot be accepted for want of a file stays there, so that poll would
 * return at once: the next turn does not look at the listener. */
static void
turn(RtHttp *h)
{
    struct pollfd items[2 + CLIENTS];
    items[0] = (struct pollfd){h->bell, POLLIN, 0};
    bool accepts = free_client(h) && !h->lacks_files;
    items[1] = (struct pollfd){accepts ? h->listener : -1, POLLIN, 0};
    h->lacks_files = false;
    for (int i = 0; i < CLIENTS; i++)
        items[2 + i] = (struct pollfd){
            h->clients[i].fd, h->clients[i].arena ? POLLOUT : POLLIN, 0};
    poll(items, 2 + CLIENTS, TURN_MS);
    double now = clock_seconds();
    for (int i = 0; i < CLIENTS; i++) {
        Client *c = &h->clients[i];
        if (c->fd < 0)
            continue;
        if (now - c->since > patience)
            hang_up(c);
        else if (items[2 + i].revents && c->arena)
            send_answer(c);
        else if (items[2 + i].revents)
            receive(h, c);
    }
    if (items[1].revents)
        accept_client(h);
}

static void *
serve(void *data)
{
    RtHttp *h = data;
    uint64_t rung;
    while (read(h->bell, &rung, sizeof rung) < 0)
        turn(h);
    return NULL;
}

/* ---- opening ------------------------------------------------------------ */

static int
try_to_listen(const struct addrinfo *at)
{
    int one = 1;
    int fd = socket(at->ai_family,
                    at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, CLIENTS) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int
port_of(int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &n) < 0)
        return 0;
    return ntohs(at.ss_family == AF_INET6
                     ? ((struct sockaddr_in6 *)&at)->sin6_port
                     : ((struct sockaddr_in *)&at)->sin_port);
}

static Status
listen_at(RtHttp *h)
{
    struct addrinfo *list = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int wrong = getaddrinfo(h->config.host, h->config.port, &hints, &list);
    errno = 0;
    for (struct addrinfo *at = list; at && h->listener < 0; at = at->ai_next)
        h->listener = try_to_listen(at);
    const char *why = wrong ? gai_strerror(wrong) : strerror(errno);
    if (list)
        freeaddrinfo(list);
    h->port = h->listener >= 0 ? port_of(h->listener) : 0;
    return h->listener >= 0
               ? OK
               : status_new(STATUS_USAGE, "cannot listen at %s:%s: %s",
                            h->config.host ? h->config.host : "*",
                            h->config.port, message_part(why));
}

static Status
start(RtHttp *h)
{
    TRY(listen_at(h));
    h->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->bell < 0)
        return rt_system_error("eventfd");
    TRY(thread_start(&h->thread, serve, h, "a server of metrics"));
    h->has_thread = true;
    return OK;
}

Status
rt_http_open(const RtHttpConfig *config, RtHttp **out)
{
    Arena *a = arena_new(NULL, "a server of metrics");
    RtHttp *h = NEW(a, RtHttp);
    *h = (RtHttp){.arena = a, .config = *config, .listener = -1, .bell = -1};
    for (int i = 0; i < CLIENTS; i++)
        h->clients[i].fd = -1;
    Status st = start(h);
    if (st)
        rt_http_close(h);
    else
        *out = h;
    return st;
}

int
rt_http_port(const RtHttp *h)
{
    return h->port;
}

void
rt_http_close(RtHttp *h)
{
    uint64_t one = 1;
    if (!h)
        return;
    if (h->has_thread && write(h->bell, &one, sizeof one) > 0)
        pthread_join(h->thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        if (h->clients[i].fd >= 0)
            hang_up(&h->clients[i]);
    if (h->listener >= 0)
        close(h->listener);
    if (h->bell >= 0)
        close(h->bell);
    arena_release(h->arena);
}
