/*
 * staleness.c - which closures may be executed beside which
 */
#include "runtime/ps/staleness/staleness.h"

static RtPsBegun *
find(const RtPsStaleness *s, int64_t id)
{
    for (int i = 0; i < s->begun.len; i++)
        if (s->begun.data[i].id == id)
            return &s->begun.data[i];
    return NULL;
}

bool
rt_staleness_may_begin(const RtPsStaleness *s, int64_t id)
{
    if (s->bound < 0 || find(s, id))
        return true;
    for (int i = 0; i < s->begun.len; i++)
        if (s->begun.data[i].lacks >= s->bound)
            return false;
    return s->begun.len <= s->bound;
}

void
rt_staleness_begin(RtPsStaleness *s, int64_t id)
{
    if (s->bound < 0)
        return;
    RtPsBegun *again = find(s, id);
    if (again) {
        again->lacks = s->begun.len - 1;
        return;
    }
    for (int i = 0; i < s->begun.len; i++)
        s->begun.data[i].lacks++;
    RtPsBegun b = {.id = id, .lacks = s->begun.len};
    VEC_PUSH(s->arena, s->begun, b);
}

void
rt_staleness_end(RtPsStaleness *s, int64_t id)
{
    RtPsBegun *b = find(s, id);
    if (b)
        *b = s->begun.data[--s->begun.len];
}

/* ---- histograms ---------------------------------------------------------- */

int
rt_staleness_row(int64_t staleness)
{
    int row = 0;
    while (staleness && row < RT_PS_STALENESS_ROWS - 1) {
        staleness >>= 1;
        row++;
    }
    return row;
}

static void
print_row(int row, int64_t num, FILE *to)
{
    int64_t least = row ? (int64_t)1 << (row - 1) : 0;
    int64_t most = row ? 2 * least - 1 : 0;
    if (row == RT_PS_STALENESS_ROWS - 1)
        fprintf(to, "  %lld or more %lld", (long long)least, (long long)num);
    else if (most > least)
        fprintf(to, "  %lld-%lld: %lld", (long long)least, (long long)most,
                (long long)num);
    else
        fprintf(to, "  %lld: %lld", (long long)least, (long long)num);
}

void
rt_staleness_print(const int64_t *rows, FILE *to)
{
    for (int row = 0; row < RT_PS_STALENESS_ROWS; row++)
        if (rows[row])
            print_row(row, rows[row], to);
}
