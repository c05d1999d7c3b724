/*
 * order.c - what order.py finds, and what it leaves alone; never compiled
 */
static int
counted(Counter *c)
{
    return c->n++;
}

static int
counted_by_another(Counter *c)
{
    return counted(c);
}

/* Changes only its own variables. */
static int
computed(int n)
{
    Counter mine = {n}, *made = NEW(arena, Counter);
    made->n = counted(&mine);
    return made->n;
}

static int
arguments(Counter *c)
{
    use(counted(c), counted_by_another(c)); /* order is open */
    use(counted(c), computed(1));
    use(computed(1), computed(2));
    use(twice(counted(c)), c->n);
    use(first(counted(c)), second(counted(c))); /* order is open */
    use(1, c->count_by(c), counted(c)); /* order is open */
    return counted(c) + counted_by_another(c); /* order is open */
}

static int
elsewhere(Counter *c)
{
    int x = counted(c), y = counted(c);
    int pair[] = {counted(c), counted(c)}; /* order is open */
    Pair p = {.first = counted(c), .second = computed(2)};
    pair[counted(c)] = counted(c); /* order is open */
    if (counted(c) && counted(c) || counted(c))
        return x ? counted(c) : counted(c);
    for (int i = counted(c); i < counted(c); i += counted(c))
        use((Pair){counted(c), counted(c)}, y); /* order is open */
    return counted(c);
}
