/*
 * http.h - a server of one page
 *
 * A thread answers a few clients at a time: GET and HEAD of the page's path,
 * one request a connection.  What a client sends is bounded, and so is the time
 * that it may take; nothing that it does reaches the rest of the process.
 */
#ifndef TFD_RUNTIME_METRICS_HTTP_H
#define TFD_RUNTIME_METRICS_HTTP_H

#include "ir/base/status.h"
#include "ir/base/str.h"

typedef struct RtHttpConfig {
    const char *host, *port; /* NULL: every one of this machine; "0": any */
    const char *path, *type; /* "/metrics"; of the content */
    void (*write)(void *data, Str *out); /* the page; of the server's thread */
    void *data;
} RtHttpConfig;

typedef struct RtHttp RtHttp;

/* STATUS_USAGE: it cannot listen there. */
Status rt_http_open(const RtHttpConfig *config, RtHttp **out) MUST_USE;
int rt_http_port(const RtHttp *h);
void rt_http_close(RtHttp *h); /* NULL is allowed */

#endif
