/*
 * lines.h - the output of a process, line by line with its label before it
 */
#ifndef TFD_RUNTIME_CLUSTER_LAUNCH_LINES_H
#define TFD_RUNTIME_CLUSTER_LAUNCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    RT_LINE = 4096, /* longer lines come in parts */
    RT_LABEL = 32
};

typedef struct RtLines {
    int fd;               /* a pipe's end, -1 once it has ended */
    char label[RT_LABEL]; /* "[2] ", "worker 1: " */
    size_t len;
    char text[RT_LINE];
} RtLines;

/* Writes what is there to standard error, the label before each line, or
 * nothing if a signal comes first; false: it has ended. */
bool rt_lines_pass(RtLines *lines);
/* All that comes at once, and closes it. */
void rt_lines_close(RtLines *lines);

#endif
