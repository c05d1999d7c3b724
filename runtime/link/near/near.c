/*
 * near.c - a link by which processes of one machine send messages in memory
 *
 * Each process has a segment with a ring for each other one of its machine,
 * from which it reads (ring.h); a message is a header and its bytes.  Reading
 * never stops: what nobody has asked for yet is kept, and a message may be
 * longer than a ring.
 *
 * Before a process sleeps it says so, and looks once more; whoever has written
 * for it, or made room, then looks whether it sleeps (both seq_cst), and wakes
 * it by its pipe.  The pipe is opened as the segment is, under /proc; for
 * reading, too, so that a process that has died makes no signal.
 */
#include "runtime/link/near/near.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ir/base/memory.h"
#include "runtime/hal/segment.h"
#include "runtime/hal/system.h"
#include "runtime/link/near/ring.h"

typedef struct Header {
    uint64_t tag, bytes;
} Header;

/* What a process's segment has: rings of the others of its machine, in their
 * order. */
typedef struct Box {
    _Alignas(CACHE_LINE) atomic_bool sleeps;
    RtRing rings[];
} Box;

/* What others need to reach this process's. */
typedef struct Name {
    RtSegmentName segment;
    int32_t bell; /* a pipe's descriptor */
} Name;

/* A message that has come, or comes, before its transfer. */
typedef struct Early {
    struct Early *next;
    uint64_t tag;
    size_t bytes, room;
    char *data;
} Early;

enum { LEAST_ROOM = 4 << 10, FIRST_ROOM = 1 << 20 };

/* Transfers in their order. */
typedef struct Queue {
    RtTransfer *first, *last;
} Queue;

typedef struct Peer {
    bool is_near;
    RtSegment segment;
    Box *box;
    int bell;
    RtRing *to, *from;
    Queue sends, receives;
    Early *early, *last_early; /* have come */

    /* The message that comes. */
    bool has_header;
    Header header;
    size_t got;
    RtTransfer *into; /* or: */
    Early *kept;      /* neither: it goes nowhere */
} Peer;

typedef struct NearLink {
    RtLink link;
    RtLink *far;
    Arena *arena;
    Peer *peers;
    RtSegment segment;
    Box *box;
    int bell[2]; /* the ends of the pipe */
    int events;  /* a descriptor of that and of the other link */
    bool has_slept;
    Early *unused;
} NearLink;

static NearLink *
near_of(RtLink *l)
{
    return (NearLink *)l;
}

/* ---- queues ---------------------------------------------------------------
 *
 * Of a transfer, handle[0] is whether it has ended, and handle[1] the next one.
 */

static RtTransfer *
next_of(const RtTransfer *t)
{
    return (RtTransfer *)(uintptr_t)t->handle[1];
}

static void
set_next(RtTransfer *t, RtTransfer *next)
{
    t->handle[1] = (uint64_t)(uintptr_t)next;
}

static void
push(Queue *q, RtTransfer *t)
{
    set_next(t, NULL);
    if (q->last)
        set_next(q->last, t);
    else
        q->first = t;
    q->last = t;
}

static bool
take(Queue *q, RtTransfer *t)
{
    RtTransfer *before = NULL, *at = q->first;
    for (; at && at != t; at = next_of(at))
        before = at;
    if (!at)
        return false;
    if (before)
        set_next(before, next_of(t));
    else
        q->first = next_of(t);
    if (q->last == t)
        q->last = before;
    return true;
}

static RtTransfer *
find(const Queue *q, uint64_t tag)
{
    RtTransfer *t = q->first;
    while (t && t->tag != tag)
        t = next_of(t);
    return t;
}

/* ---- waking -------------------------------------------------------------- */

static void
ring_bell(int fd)
{
    char one = 1;
    if (write(fd, &one, 1) < 0)
        errno = 0; /* full: it is awake, or will be */
}

static void
wake(const Peer *p)
{
    if (atomic_load(&p->box->sleeps) && atomic_exchange(&p->box->sleeps, false))
        ring_bell(p->bell);
}

static bool
can_write(const Peer *p)
{
    return p->sends.first && rt_ring_room(p->to) >= sizeof(Header);
}

static bool
has_work(const NearLink *l)
{
    for (int k = 0; k < l->link.size; k++) {
        const Peer *p = &l->peers[k];
        if (p->is_near && (rt_ring_filled(p->from) || can_write(p)))
            return true;
    }
    return false;
}

static int
near_wait_fd(RtLink *link)
{
    NearLink *l = near_of(link);
    l->far->ops->wait_fd(l->far);
    l->has_slept = true;
    atomic_store(&l->box->sleeps, true);
    if (has_work(l))
        ring_bell(l->bell[1]);
    return l->events;
}

static void
stay_awake(NearLink *l)
{
    char bytes[64];
    l->has_slept = false;
    atomic_store(&l->box->sleeps, false);
    while (read(l->bell[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
}

/* ---- sending ------------------------------------------------------------- */

/* A part of the first one; false: there is no room. */
static bool
write_some(Peer *p, RtTransfer *t)
{
    Header h = {t->tag, t->bytes};
    if (rt_ring_room(p->to) < sizeof h)
        return false;
    if (!t->handle[0])
        rt_ring_write(p->to, &h, sizeof h);
    t->handle[0] = true; /* it is on its way */
    t->moved += rt_ring_write(p->to, (const char *)t->address + t->moved,
                              t->bytes - t->moved);
    return true;
}

static bool
has_left(const RtTransfer *t)
{
    return t->handle[0] && t->moved == t->bytes;
}

/* Whether anything was written. */
static bool
write_all(Peer *p)
{
    bool any = false;
    RtTransfer *t;
    while ((t = p->sends.first)) {
        if (!write_some(p, t)) {
            atomic_store(&p->to->needs_room, true);
            if (!write_some(p, t))
                break;
        }
        any = true;
        if (has_left(t))
            take(&p->sends, t);
    }
    if (any)
        wake(p);
    return any;
}

static void
near_send(RtLink *link, RtTransfer *t)
{
    NearLink *l = near_of(link);
    Peer *p = &l->peers[t->peer];
    if (!p->is_near) {
        l->far->ops->send(l->far, t);
        return;
    }
    push(&p->sends, t);
    write_all(p);
}

/* ---- receiving ----------------------------------------------------------- */

static void
set_room(NearLink *l, Early *e, size_t least)
{
    for (e->room = LEAST_ROOM; e->room < least;)
        e->room *= 2;
    e->data = arena_alloc(l->arena, e->room);
}

/* A long message gets room as it comes: a header alone costs little. */
static void
make_room(NearLink *l, Early *e, size_t got, size_t least)
{
    const char *data = e->data;
    if (e->room >= least)
        return;
    set_room(l, e, least);
    memcpy(e->data, data, got);
}

/* One with room for a message, if there is one, else for its first bytes; of
 * the arena, as many as are ever early. */
static Early *
new_early(NearLink *l, const Header *h)
{
    Early **at = &l->unused, *e;
    while (*at && (*at)->room < h->bytes)
        at = &(*at)->next;
    if ((e = *at)) {
        *at = e->next;
    } else {
        e = NEW(l->arena, Early);
        set_room(l, e, h->bytes < FIRST_ROOM ? h->bytes : FIRST_ROOM);
    }
    e->next = NULL;
    e->tag = h->tag;
    e->bytes = h->bytes;
    return e;
}

static void
give_back(NearLink *l, Early *e)
{
    e->next = l->unused;
    l->unused = e;
}

static void
hand_over(NearLink *l, Early *e, RtTransfer *t)
{
    memcpy(t->address, e->data, e->bytes < t->bytes ? e->bytes : t->bytes);
    t->handle[0] = true;
    give_back(l, e);
}

static void
keep(Peer *p, Early *e)
{
    if (p->early)
        p->last_early->next = e;
    else
        p->early = e;
    p->last_early = e;
}

/* The first one with that tag leaves the list; NULL: there is none. */
static Early *
take_early(Peer *p, uint64_t tag)
{
    Early *before = NULL, *e = p->early;
    for (; e && e->tag != tag; e = e->next)
        before = e;
    if (!e)
        return NULL;
    if (before)
        before->next = e->next;
    else
        p->early = e->next;
    if (p->last_early == e)
        p->last_early = before;
    return e;
}

/* Where the bytes of the message go whose header has come. */
static void
choose_place(NearLink *l, Peer *p)
{
    RtTransfer *t = find(&p->receives, p->header.tag);
    p->got = 0;
    p->into = t && t->bytes == p->header.bytes ? t : NULL;
    p->kept = p->into ? NULL : new_early(l, &p->header);
    if (p->into)
        take(&p->receives, t);
}

static void
end_message(NearLink *l, Peer *p)
{
    Early *e = p->kept;
    RtTransfer *t = e ? find(&p->receives, e->tag) : NULL;
    p->has_header = false;
    if (p->into)
        p->into->handle[0] = true;
    p->into = NULL;
    p->kept = NULL;
    if (t) {
        take(&p->receives, t);
        hand_over(l, e, t);
    } else if (e) {
        keep(p, e);
    }
}

static void
read_bytes(NearLink *l, Peer *p)
{
    size_t n = (size_t)p->header.bytes - p->got;
    if (p->kept) {
        size_t filled = rt_ring_filled(p->from);
        n = filled < n ? filled : n;
        make_room(l, p->kept, p->got, p->got + n);
    }
    char *to = p->into ? p->into->address : p->kept ? p->kept->data : NULL;
    p->got += rt_ring_read(p->from, to ? to + p->got : NULL, n);
    if (p->got == p->header.bytes)
        end_message(l, p);
}

static Status
read_header(NearLink *l, Peer *p)
{
    rt_ring_read(p->from, &p->header, sizeof p->header);
    if (p->header.tag >= RT_LINK_NUM_TAGS || p->header.bytes > MEMORY_MAX)
        return status_new(STATUS_MACHINE,
                          "rank %d has sent what is no message, in memory",
                          (int)(p - l->peers));
    p->has_header = true;
    choose_place(l, p);
    return OK;
}

/* *moved is set if anything was read. */
static Status
read_all(NearLink *l, Peer *p, bool *moved)
{
    bool any = false;
    while (rt_ring_filled(p->from) >= (p->has_header ? 1 : sizeof(Header))) {
        if (!p->has_header)
            TRY(read_header(l, p));
        read_bytes(l, p);
        any = true;
    }
    if (any && atomic_load(&p->from->needs_room)) {
        atomic_store(&p->from->needs_room, false);
        wake(p);
    }
    *moved |= any;
    return OK;
}

static void
near_recv(RtLink *link, RtTransfer *t)
{
    NearLink *l = near_of(link);
    Peer *p = &l->peers[t->peer];
    if (!p->is_near) {
        l->far->ops->recv(l->far, t);
        return;
    }
    Early *e = take_early(p, t->tag);
    if (e)
        hand_over(l, e, t);
    else
        push(&p->receives, t);
}

/* ---- both ---------------------------------------------------------------- */

static Status
near_progress(RtLink *link, bool *moved)
{
    NearLink *l = near_of(link);
    if (l->has_slept)
        stay_awake(l);
    for (int k = 0; k < link->size; k++) {
        Peer *p = &l->peers[k];
        if (!p->is_near)
            continue;
        *moved |= write_all(p);
        TRY(read_all(l, p, moved));
    }
    return l->far->ops->progress(l->far, moved);
}

static bool
near_test(RtLink *link, RtTransfer *t)
{
    NearLink *l = near_of(link);
    if (!l->peers[t->peer].is_near)
        return l->far->ops->test(l->far, t);
    return t->sends ? has_left(t) : t->handle[0];
}

/* A message that is on its way ends, from a copy. */
static void
leave_send(NearLink *l, Peer *p, RtTransfer *t)
{
    bool is_begun = t->handle[0];
    if (!take(&p->sends, t) || !is_begun)
        return;
    RtTransfer *rest = arena_copy(l->arena, t, sizeof *t);
    rest->address = arena_copy(l->arena, t->address, t->bytes);
    set_next(rest, p->sends.first);
    p->sends.first = rest;
    if (!p->sends.last)
        p->sends.last = rest;
}

static void
near_cancel(RtLink *link, RtTransfer *t)
{
    NearLink *l = near_of(link);
    Peer *p = &l->peers[t->peer];
    if (!p->is_near)
        l->far->ops->cancel(l->far, t);
    else if (t->sends)
        leave_send(l, p, t);
    else if (p->into == t)
        p->into = NULL;
    else
        take(&p->receives, t);
}

static RtLinkAddress
near_address(RtLink *l)
{
    return near_of(l)->far->ops->address(near_of(l)->far);
}

static Status
near_connect(RtLink *link, const RtLinkAddress *all)
{
    NearLink *l = near_of(link);
    l->far->wake_fd = link->wake_fd;
    return l->far->ops->connect(l->far, all);
}

static bool
near_is_near(RtLink *link, int peer)
{
    return near_of(link)->peers[peer].is_near;
}

static void
close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void
near_close(RtLink *link, bool failed)
{
    NearLink *l = near_of(link);
    for (int k = 0; k < link->size; k++) {
        Peer *p = &l->peers[k];
        rt_segment_close(&p->segment);
        close_fd(p->bell);
    }
    rt_segment_close(&l->segment);
    close_fd(l->bell[0]);
    close_fd(l->bell[1]);
    close_fd(l->events);
    l->far->ops->close(l->far, failed);
    arena_release(l->arena);
}

/* ---- opening ------------------------------------------------------------- */

static Status
open_own(NearLink *l, int num)
{
    size_t bytes = sizeof(Box) + (size_t)num * sizeof(RtRing);
    TRY(rt_segment_new(bytes, false, &l->segment));
    l->box = (Box *)(void *)l->segment.at;
    if (pipe2(l->bell, O_CLOEXEC | O_NONBLOCK))
        return rt_system_error("a pipe");
    l->events = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN};
    int far = l->far->ops->wait_fd(l->far);
    if (l->events < 0 || epoll_ctl(l->events, EPOLL_CTL_ADD, l->bell[0], &e) ||
        epoll_ctl(l->events, EPOLL_CTL_ADD, far, &e))
        return rt_system_error("epoll");
    return OK;
}

/* The other end of another process's pipe, or -1. */
static int
open_bell(const Name *name)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)name->segment.pid,
             (int)name->bell);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)))
        return fd;
    close(fd);
    return -1;
}

/* Of the first so many ranks, those of a machine, without one. */
static int
num_of(const int *machine_of, int num, int machine, int without)
{
    int n = 0;
    for (int k = 0; k < num; k++)
        n += k != without && machine_of[k] == machine;
    return n;
}

/* Of all that send to another one of the machine, this one's ring. */
static RtRing *
ring_of(Box *box, const int *machine_of, int from, int to)
{
    return &box->rings[num_of(machine_of, from, machine_of[from], to)];
}

/* Whether the other one's could be mapped. */
static bool
map_peer(NearLink *l, const int *machine_of, const RtBytes *bytes, int k)
{
    Name name;
    Peer *p = &l->peers[k];
    int own = l->link.rank;
    memcpy(&name, bytes->data, sizeof name);
    if (name.segment.bytes != l->segment.bytes ||
        rt_segment_map(&name.segment, &p->segment))
        return false;
    p->bell = open_bell(&name);
    p->box = (Box *)(void *)p->segment.at;
    p->to = ring_of(p->box, machine_of, own, k);
    p->from = ring_of(l->box, machine_of, k, own);
    return p->bell >= 0;
}

/* Of each pair both have to. */
static Status
agree(NearLink *l, const RtExchange *x, const bool *can, Arena *a)
{
    RtBytes *all;
    size_t size = (size_t)x->size;
    TRY(rt_exchange_bytes(x, "memory between processes: who can", can, size, a,
                          &all));
    for (int k = 0; k < x->size; k++) {
        const bool *others = all[k].data;
        l->peers[k].is_near = all[k].len == size && can[k] && others[x->rank];
    }
    return OK;
}

static Status
join(NearLink *l, const RtExchange *x, const int *machine_of, Arena *a)
{
    RtBytes *all;
    Name own = {rt_segment_name(&l->segment), l->bell[0]};
    bool *can = NEW_ARRAY(a, bool, (size_t)x->size);
    TRY(rt_exchange_bytes(x, "memory between processes", &own, sizeof own, a,
                          &all));
    for (int k = 0; k < x->size; k++)
        can[k] = k != x->rank && machine_of[k] == machine_of[x->rank] &&
                 all[k].len == sizeof own &&
                 map_peer(l, machine_of, &all[k], k);
    return agree(l, x, can, a);
}

static const RtLinkOps near_ops = {
    .address = near_address,
    .connect = near_connect,
    .send = near_send,
    .recv = near_recv,
    .progress = near_progress,
    .test = near_test,
    .cancel = near_cancel,
    .wait_fd = near_wait_fd,
    .close = near_close,
    .is_near = near_is_near,
};

static NearLink *
new_link(RtLink *far)
{
    Arena *a = arena_new(NULL, "messages in memory");
    NearLink *l = NEW(a, NearLink);
    RtLinkOps *ops = arena_copy(a, &near_ops, sizeof near_ops);
    ops->name = far->ops->name;
    l->link = (RtLink){ops, far->rank, far->size, -1};
    l->far = far;
    l->arena = a;
    l->peers = NEW_ARRAY(a, Peer, (size_t)far->size);
    l->bell[0] = l->bell[1] = l->events = -1;
    for (int k = 0; k < far->size; k++)
        l->peers[k].bell = -1;
    return l;
}

Status
rt_link_near_open(RtLink *far, const RtExchange *x, const int *machine_of,
                  RtLink **out)
{
    NearLink *l = new_link(far);
    Arena *scratch = arena_new(NULL, "joining in memory");
    int others = num_of(machine_of, x->size, machine_of[x->rank], x->rank);
    Status st = open_own(l, others);
    if (!st)
        st = join(l, x, machine_of, scratch);
    arena_release(scratch);
    if (st) {
        near_close(&l->link, true);
        return st;
    }
    *out = &l->link;
    return OK;
}
