/*
 * damage.h - messages that cannot be read
 *
 * Only a process that has the job's key can send one.  It is ignored, as if it
 * was lost with a connection: what needs an answer is sent again.  Who sends
 * such messages is said once, and how many they were at the end.
 */
#ifndef TFD_RUNTIME_PS_WIRE_DAMAGE_H
#define TFD_RUNTIME_PS_WIRE_DAMAGE_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { RT_PS_PEER_BYTES = 32, RT_PS_MOST_BLAMED = 64 };

/* Those of a process, from all its threads. */
typedef struct RtPsDamage {
    pthread_mutex_t lock;
    int num;
    struct {
        char peer[RT_PS_PEER_BYTES];
        int64_t count;
    } peers[RT_PS_MOST_BLAMED]; /* the last one is of all others, too */
} RtPsDamage;

void rt_ps_damage_init(RtPsDamage *d);
/* A message of that kind from a peer, such as "worker 3", is ignored. */
void rt_ps_damaged(RtPsDamage *d, const char *peer, const char *kind, FILE *to);
/* Says how many they were of each that has sent several. */
void rt_ps_damage_end(RtPsDamage *d, FILE *to);

#endif
