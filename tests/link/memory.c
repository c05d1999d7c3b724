/*
 * memory.c - a link between threads of one process, for tests
 */
#include "tests/link/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Message Message;

struct Message {
    Message *next;
    uint32_t tag, delay; /* looks */
    size_t bytes;
    char data[];
};

/* From one rank to another. */
typedef struct Pipe {
    Message *first, **last;
} Pipe;

typedef struct MemoryLink {
    RtLink link;
    MemoryNet *net;
    uint32_t random;
    atomic_bool is_silent, is_broken, holds_sends;
    bool has_failed;
    MemoryCount count;
    Pipe *arrived; /* of each rank, looked at by the carrier alone */
} MemoryLink;

struct MemoryNet {
    int size;
    uint32_t delay;
    pthread_mutex_t lock; /* of the pipes */
    Pipe *pipes;          /* from, to */
    MemoryLink *links;
};

static void
push(Pipe *p, Message *m)
{
    m->next = NULL;
    *p->last = m;
    p->last = &m->next;
}

static Message *
take(Pipe *p, Message **at)
{
    Message *m = *at;
    *at = m->next;
    if (!m->next)
        p->last = at;
    return m;
}

static Pipe *
pipe_of(MemoryNet *net, int from, int to)
{
    return &net->pipes[from * net->size + to];
}

static RtLinkAddress
memory_address(RtLink *l)
{
    return (RtLinkAddress){&l->rank, sizeof l->rank};
}

static Status
memory_connect(RtLink *l, const RtLinkAddress *all)
{
    (void)l;
    (void)all;
    return OK;
}

static uint32_t
next_random(MemoryLink *l)
{
    l->random = l->random * 1664525u + 1013904223u;
    return l->random >> 8;
}

static void
wake(int fd)
{
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0 && errno != EAGAIN)
        abort();
}

static void
memory_send(RtLink *link, RtTransfer *t)
{
    MemoryLink *l = (MemoryLink *)link;
    MemoryNet *net = l->net;
    Message *m = malloc(sizeof *m + t->bytes);
    m->tag = t->tag;
    m->bytes = t->bytes;
    m->delay = net->delay ? next_random(l) % net->delay : 0;
    memcpy(m->data, t->address, t->bytes);
    l->count.messages++;
    l->count.bytes += t->bytes;
    t->handle[0] = 1;
    if (atomic_load(&l->is_silent)) {
        free(m);
        return;
    }
    pthread_mutex_lock(&net->lock);
    push(pipe_of(net, link->rank, t->peer), m);
    wake(net->links[t->peer].link.wake_fd);
    pthread_mutex_unlock(&net->lock);
}

static void
memory_recv(RtLink *link, RtTransfer *t)
{
    (void)link;
    t->handle[0] = 0;
}

/* Of each pair the messages before the first that is late; its delay gets
 * smaller.  Whether any came or is late. */
static bool
fetch(MemoryLink *l)
{
    MemoryNet *net = l->net;
    bool any = false;
    pthread_mutex_lock(&net->lock);
    for (int k = 0; k < net->size; k++) {
        Pipe *p = pipe_of(net, k, l->link.rank);
        for (; p->first && p->first->delay == 0; any = true)
            push(&l->arrived[k], take(p, &p->first));
        if (p->first) {
            p->first->delay--;
            any = true;
        }
    }
    pthread_mutex_unlock(&net->lock);
    return any;
}

static Status
memory_progress(RtLink *link, bool *moved)
{
    MemoryLink *l = (MemoryLink *)link;
    if (atomic_load(&l->is_broken))
        return status_new(STATUS_MACHINE, "the link is broken");
    if (fetch(l))
        *moved = true;
    return OK;
}

static bool
memory_test(RtLink *link, RtTransfer *t)
{
    MemoryLink *l = (MemoryLink *)link;
    if (t->sends)
        return !atomic_load(&l->holds_sends);
    Pipe *p = &l->arrived[t->peer];
    for (Message **at = &p->first; *at; at = &(*at)->next)
        if ((*at)->tag == t->tag) {
            Message *m = take(p, at);
            if (m->bytes != t->bytes)
                abort();
            memcpy(t->address, m->data, m->bytes);
            free(m);
            return true;
        }
    return false;
}

static void
memory_cancel(RtLink *l, RtTransfer *t)
{
    (void)l;
    (void)t;
}

static int
memory_wait_fd(RtLink *l)
{
    return l->wake_fd;
}

static void
free_all(Pipe *p)
{
    while (p->first)
        free(take(p, &p->first));
}

static void
memory_close(RtLink *link, bool failed)
{
    MemoryLink *l = (MemoryLink *)link;
    l->has_failed = failed;
    pthread_mutex_lock(&l->net->lock);
    link->wake_fd = -1;
    pthread_mutex_unlock(&l->net->lock);
    for (int k = 0; k < link->size; k++)
        free_all(&l->arrived[k]);
    free(l->arrived);
    l->arrived = NULL;
}

static const RtLinkOps memory_ops = {
    .name = "memory",
    .address = memory_address,
    .connect = memory_connect,
    .send = memory_send,
    .recv = memory_recv,
    .progress = memory_progress,
    .test = memory_test,
    .cancel = memory_cancel,
    .wait_fd = memory_wait_fd,
    .close = memory_close,
};

static Pipe *
pipes_new(int num)
{
    Pipe *p = calloc((size_t)num, sizeof *p);
    for (int i = 0; i < num; i++)
        p[i].last = &p[i].first;
    return p;
}

MemoryNet *
memory_net_new(int size, uint32_t seed, uint32_t delay)
{
    MemoryNet *net = calloc(1, sizeof *net);
    net->size = size;
    net->delay = delay;
    net->pipes = pipes_new(size * size);
    net->links = calloc((size_t)size, sizeof *net->links);
    pthread_mutex_init(&net->lock, NULL);
    for (int k = 0; k < size; k++) {
        MemoryLink *l = &net->links[k];
        l->link = (RtLink){&memory_ops, k, size, -1};
        l->net = net;
        l->random = seed * 2654435761u + (uint32_t)k;
        l->arrived = pipes_new(size);
    }
    return net;
}

void
memory_net_free(MemoryNet *net)
{
    for (int i = 0; i < net->size * net->size; i++)
        free_all(&net->pipes[i]);
    for (int i = 0; i < net->size; i++)
        free(net->links[i].arrived); /* of one that was never opened */
    pthread_mutex_destroy(&net->lock);
    free(net->pipes);
    free(net->links);
    free(net);
}

RtLink *
memory_link(MemoryNet *net, int rank)
{
    return &net->links[rank].link;
}

void
memory_net_silence(MemoryNet *net, int rank)
{
    atomic_store(&net->links[rank].is_silent, true);
}

void
memory_net_hold_sends(MemoryNet *net, int rank)
{
    atomic_store(&net->links[rank].holds_sends, true);
}

void
memory_net_break(MemoryNet *net, int rank)
{
    atomic_store(&net->links[rank].is_broken, true);
}

MemoryCount
memory_net_count(MemoryNet *net, int rank)
{
    MemoryCount count = net->links[rank].count;
    net->links[rank].count = (MemoryCount){0};
    return count;
}

bool
memory_net_has_failed(MemoryNet *net, int rank)
{
    return net->links[rank].has_failed;
}
