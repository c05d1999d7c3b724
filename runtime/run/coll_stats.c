/*
 * coll_stats.c - --stats of collectives: what carries them, by which algorithm
 *
 * Calls and algorithms are the same in all processes; bytes are those of the
 * operands of all replicas, and seconds those of the device whose program spent
 * the most in the collective.
 */
#include "runtime/run/coll_stats.h"

#include "ir/base/minmax.h"
#include "runtime/exec/run_state.h"
#include "runtime/link/carrier.h"
#include "runtime/run/memory.h"

typedef struct Use {
    int64_t bytes, nanoseconds;
} Use;

struct RtCollTotals {
    RtLinkCount busiest; /* the most that any process has sent */
    int num;             /* collectives */
    Use *uses;
};

/* ---- totals over the processes of a job ---------------------------------- */

/* Since the processes have joined. */
static RtLinkCount
sent_by_link(const RtRun *run)
{
    RtLinkCount begin = run->stats.sent_before, now = begin;
    if (run->carrier)
        now = rt_carrier_sent(run->carrier);
    return (RtLinkCount){now.messages - begin.messages, now.bytes - begin.bytes,
                         now.near_messages - begin.near_messages,
                         now.near_bytes - begin.near_bytes};
}

static double
seconds_of_device(const RtRun *run, int device, int collective)
{
    double sum = 0;
    for (int i = 0; i < run->replicas_each; i++)
        sum += run->locals[device * run->replicas_each + i]
                   .coll_uses[collective]
                   .seconds;
    return sum;
}

/* Of this process. */
static Use
use_of(const RtRun *run, int collective)
{
    Use use = {0};
    for (int i = 0; i < run->num_local; i++)
        use.bytes += run->locals[i].coll_uses[collective].bytes;
    for (int i = 0; i < run->num_devices; i++) {
        int64_t ns = (int64_t)(1e9 * seconds_of_device(run, i, collective));
        if (ns > use.nanoseconds)
            use.nanoseconds = ns;
    }
    return use;
}

static void
add_part(void *data, int rank, const void *part, size_t n)
{
    RtCollTotals *t = data;
    const RtLinkCount *sent = part;
    const Use *uses = (const Use *)(const void *)(sent + 1);
    (void)rank;
    (void)n;
    t->busiest.messages = max_i64(t->busiest.messages, sent->messages);
    t->busiest.bytes = max_i64(t->busiest.bytes, sent->bytes);
    t->busiest.near_messages =
        max_i64(t->busiest.near_messages, sent->near_messages);
    t->busiest.near_bytes = max_i64(t->busiest.near_bytes, sent->near_bytes);
    for (int i = 0; i < t->num; i++) {
        t->uses[i].bytes += uses[i].bytes;
        t->uses[i].nanoseconds =
            max_i64(t->uses[i].nanoseconds, uses[i].nanoseconds);
    }
}

Status
rt_coll_totals(RtRun *run, RtCollTotals **out)
{
    RtCollTotals *t = NEW(run->arena, RtCollTotals);
    size_t num = (size_t)run->collectives.len;
    size_t bytes = sizeof(RtLinkCount) + num * sizeof(Use);
    RtLinkCount *own = arena_alloc(run->arena, bytes);
    Use *uses = (Use *)(void *)(own + 1);
    *own = sent_by_link(run);
    for (size_t i = 0; i < num; i++)
        uses[i] = use_of(run, (int)i);
    t->num = (int)num;
    t->uses = NEW_ARRAY(run->arena, Use, num);
    *out = t;
    return rt_gather_equal(run, own, bytes, add_part, t);
}

/* ---- what is printed ----------------------------------------------------- */

/* What joins the processes, and why nothing that is preferred does. */
static void
print_transport(const RtRun *run, FILE *to)
{
    const RtColl *c = run->coll;
    fprintf(to, ", by %s between %d processes%s%s", c->ops->name, run->size,
            c->why[0] ? ", since " : "", c->why);
}

static void
print_messages(const RtRun *run, const RtLinkCount *most, FILE *to)
{
    int64_t steps = run->stats.steps - run->stats.resumed;
    double each = steps > 0 ? (double)steps : 1.0;
    fprintf(to,
            "  messages     %.1f a step of %.0f bytes in all, from the busiest "
            "process, over %s",
            (double)most->messages / each, (double)most->bytes / each,
            rt_carrier_link(run->carrier));
    if (most->near_messages)
        fprintf(to, ", of which %.1f of %.0f bytes in memory",
                (double)most->near_messages / each,
                (double)most->near_bytes / each);
    fputc('\n', to);
}

static void
print_speed(IrLinkSpeed speed, const char *where, FILE *to)
{
    fprintf(to, "%.1f us and %.3f GB/s%s, K = %.0f bytes", 1e6 * speed.latency,
            1e-9 * speed.rate, where, speed.latency * speed.rate);
}

/* What algorithms were chosen by. */
static void
print_speeds(const RtRun *run, FILE *to)
{
    RtLinkTopology t = rt_carrier_topology(run->carrier);
    fprintf(to, "  link         ");
    if (t.per_machine > 1)
        print_speed(t.near, " on a machine", to);
    if (t.per_machine > 1 && t.per_machine < run->size)
        fprintf(to, ", ");
    if (t.per_machine < run->size)
        print_speed(t.far, t.per_machine > 1 ? " between machines" : "", to);
    fputc('\n', to);
}

/* "all_reduce", of its start. */
static const char *
name_of(const IrOp *start)
{
    const IrSplit *split = ir_op_split(start->kind);
    return ir_op_info[split ? split->op : start->kind].name;
}

static int64_t
sum_of(const int64_t *calls)
{
    int64_t sum = 0;
    for (int i = 0; i < NUM_IR_COLL_ALGORITHMS; i++)
        sum += calls[i];
    return sum;
}

/* "gather", or "gather 10, halving 90" where its calls differ. */
static void
print_algorithms(const int64_t *calls, FILE *to)
{
    int64_t all = sum_of(calls);
    const char *between = "";
    for (int i = 0; i < NUM_IR_COLL_ALGORITHMS; i++) {
        if (!calls[i])
            continue;
        fprintf(to, "%s%s", between, ir_coll_names[i]);
        if (calls[i] < all)
            fprintf(to, " %lld", (long long)calls[i]);
        between = ", ";
    }
    fputc('\n', to);
}

static void
print_use(const RtRun *run, const RtCollTotals *t, int i, FILE *to)
{
    const RtHostOp *h = run->collectives.data[i];
    const int64_t *calls = run->coll->ops->calls(h->instance);
    const char *at =
        arena_printf(run->arena, "%s:%u:%u",
                     diag_source_name(run->plan->diag, h->op->loc.file),
                     h->op->loc.line, h->op->loc.col);
    fprintf(to, "  %-26s %-10s %9lld %13lld %9.3f  %-5s ", at, name_of(h->op),
            (long long)sum_of(calls), (long long)t->uses[i].bytes,
            1e-9 * (double)t->uses[i].nanoseconds, run->coll->over);
    print_algorithms(calls, to);
}

/* Those that were called. */
static void
print_uses(const RtRun *run, const RtCollTotals *t, FILE *to)
{
    bool has_head = false;
    for (int i = 0; i < t->num; i++) {
        const RtHostOp *h = run->collectives.data[i];
        if (!sum_of(run->coll->ops->calls(h->instance)))
            continue;
        if (!has_head)
            fprintf(to, "  %-26s %-10s %9s %13s %9s  %-5s %s\n", "at",
                    "operation", "calls", "bytes", "seconds", "over", "by");
        has_head = true;
        print_use(run, t, i, to);
    }
}

static int64_t
bytes_of_all(const RtCollTotals *t)
{
    int64_t sum = 0;
    for (int i = 0; i < t->num; i++)
        sum += t->uses[i].bytes;
    return sum;
}

void
rt_print_collectives(const RtRun *run, const RtCollTotals *t, FILE *to)
{
    fprintf(to, "collectives    %.3f MB from %d replicas",
            rt_megabytes(bytes_of_all(t)), run->num_replicas);
    if (run->size > 1)
        print_transport(run, to);
    fputc('\n', to);
    if (run->carrier) {
        print_messages(run, &t->busiest, to);
        print_speeds(run, to);
    }
    print_uses(run, t, to);
}
