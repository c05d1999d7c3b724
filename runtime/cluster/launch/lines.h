/*
 * lines.h - the output of a rank, line by line with its number before it
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_LINES_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { RT_LINE = 4096 }; /* longer lines come in parts */

typedef struct RtLines {
    int fd; /* a pipe's end, -1 once it has ended */
    int rank;
    size_t len;
    char text[RT_LINE];
} RtLines;

/* Writes what is there to standard error as "[2] line"; false: it has ended. */
bool rt_lines_pass(RtLines *lines);
/* All that comes at once, and closes it. */
void rt_lines_close(RtLines *lines);

#endif
