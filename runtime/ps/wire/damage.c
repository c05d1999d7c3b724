/*
 * damage.c - messages that cannot be read
 */
#include "runtime/ps/wire/damage.h"

#include <string.h>

void
rt_ps_damage_init(RtPsDamage *d)
{
    d->num = 0;
    pthread_mutex_init(&d->lock, NULL);
}

/* Which of them it is; a new one if there is room. */
static int
find(RtPsDamage *d, const char *peer)
{
    int i = 0;
    while (i < d->num && strcmp(d->peers[i].peer, peer) != 0)
        i++;
    if (i < d->num)
        return i;
    if (d->num == RT_PS_MOST_BLAMED)
        return d->num - 1;
    snprintf(d->peers[i].peer, sizeof d->peers[i].peer, "%s", peer);
    d->peers[i].count = 0;
    return d->num++;
}

void
rt_ps_damaged(RtPsDamage *d, const char *peer, const char *kind, FILE *to)
{
    pthread_mutex_lock(&d->lock);
    if (d->peers[find(d, peer)].count++ == 0)
        fprintf(to,
                "tfd-run: warning: a damaged message (%s) from %s is ignored\n",
                kind, peer);
    pthread_mutex_unlock(&d->lock);
}

void
rt_ps_damage_end(RtPsDamage *d, FILE *to)
{
    for (int i = 0; i < d->num; i++)
        if (d->peers[i].count > 1)
            fprintf(to,
                    "tfd-run: warning: %lld damaged messages from %s were "
                    "ignored\n",
                    (long long)d->peers[i].count, d->peers[i].peer);
    d->num = 0;
    pthread_mutex_destroy(&d->lock);
}
