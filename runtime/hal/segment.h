/*
 * segment.h - memory that several processes of one machine map
 *
 * A segment is a file without a name (memfd_create) of the process that made
 * it.  Others open it as a descriptor of that process under /proc, which the
 * kernel allows among the processes of a user.  So nothing has to be cleaned
 * up: the memory is gone with the last process that maps it, however that ends.
 *
 * What a process hands out, for others to map it, says which machine it is on;
 * and behind the memory there is a random number, the same in both, so that
 * nobody maps the file of a stranger that happens to have that process number
 * on another machine or in another container.
 */
#ifndef TFD_RUNTIME_HAL_SEGMENT_H
#define TFD_RUNTIME_HAL_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/status.h"

typedef struct RtSegment {
    char *at; /* page-aligned; NULL: there is none */
    size_t bytes;
    bool dense;      /* on huge pages, if it is large and the machine can */
    int fd;          /* of its maker */
    uint64_t cookie; /* behind its bytes */
} RtSegment;

/* How another process finds a segment: bytes that travel. */
typedef struct RtSegmentName {
    char boot[40];      /* of the machine, another one each time it starts */
    uint64_t pid_space; /* in which processes have their numbers */
    uint64_t cookie, bytes, dense;
    int32_t pid, fd; /* pid 0: of no segment */
} RtSegmentName;

/* Zeros; pages that nobody touches take no memory, unless it is dense. */
Status rt_segment_new(size_t bytes, bool dense, RtSegment *out) MUST_USE;
/* Unmaps it here; one of zeros is allowed. */
void rt_segment_close(RtSegment *s);

/* Of one of this process, as long as that is open. */
RtSegmentName rt_segment_name(const RtSegment *s);
/* Maps one of another process; that of no segment is one of zeros.  NULL, or
 * why it cannot be ("it is on another machine"). */
const char *rt_segment_map(const RtSegmentName *name, RtSegment *out) MUST_USE;

#endif
