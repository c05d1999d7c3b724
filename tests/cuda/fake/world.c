/*
 * world.c - options and complaints of the fake CUDA driver
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/fake.h"

World fake_world;

void
fake_complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("fake driver: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

void
fake_count(Counts *counts, const Op *op)
{
    counts->ops[op->kind]++;
    counts->bytes[op->kind] += op->bytes;
}

uint64_t
fake_random(uint64_t n)
{
    uint64_t x = fake_world.random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return n ? (x ^ x >> 31) % n : 0;
}

const char *
fake_keep(const char *name)
{
    static struct Kept {
        struct Kept *next;
        char text[];
    } * all;
    struct Kept *k = all;
    while (k && strcmp(k->text, name) != 0)
        k = k->next;
    if (!k) {
        k = fake_alloc(sizeof *k + strlen(name) + 1);
        strcpy(k->text, name);
        k->next = all;
        all = k;
    }
    return k->text;
}

uint64_t
fake_hash(const void *at, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)at)[i]) * 1099511628211u;
    return h;
}

void *
fake_alloc(size_t n)
{
    void *at = calloc(1, n ? n : 1);
    if (!at)
        fake_complain("no memory for %zu bytes", n);
    return at;
}

/* fail:cuMemAlloc_v2:3, and :2 for the error; 999 is usual. */
static bool
read_fail(char *word, FakeOptions *o)
{
    char *rest;
    if (strncmp(word, "fail:", 5) != 0)
        return false;
    char *name = strtok_r(word + 5, ":", &rest);
    char *number = strtok_r(NULL, ":", &rest);
    char *error = strtok_r(NULL, ":", &rest);
    if (!name || !number || strlen(name) >= sizeof o->fail)
        return false;
    strcpy(o->fail, name);
    o->fail_number = atoi(number);
    o->fail_error = error ? atoi(error) : CUDA_ERROR_UNKNOWN;
    return true;
}

static bool
read_number(const char *word, const char *name, long long *out)
{
    size_t n = strlen(name);
    char *end;
    if (strncmp(word, name, n) != 0 || word[n] != ':')
        return false;
    *out = strtoll(word + n + 1, &end, 10);
    return *end == '\0' && end > word + n + 1;
}

static bool
read_option(char *word, FakeOptions *o)
{
    long long x;
    if (read_number(word, "devices", &x) && x <= MAX_DEVICES)
        return o->devices = (int)x, true;
    if (read_number(word, "seed", &x))
        return o->seed = (uint64_t)x, true;
    if (read_number(word, "memory", &x))
        return o->memory = (size_t)x, true;
    if (read_number(word, "version", &x))
        return o->version = (int)x, true;
    if (read_number(word, "capability", &x))
        return o->capability = (int)x, true;
    if (read_number(word, "near", &x))
        return o->near = (int)x, true;
    if (read_number(word, "peers", &x))
        return o->peers = (int)x, true;
    if (read_number(word, "pitch", &x))
        return o->pitch = (int)x, true;
    if (read_number(word, "threads", &x))
        return o->threads = (int)x, true;
    if (strcmp(word, "count") == 0)
        return o->count = true;
    if (strcmp(word, "no-peers") == 0)
        return o->no_peers = true;
    return read_fail(word, o);
}

void
fake_options(FakeOptions *out)
{
    char text[MAX_OPTIONS], *rest = text;
    const char *setting = getenv("TFD_FAKE_CUDA");
    *out = (FakeOptions){.devices = 1,
                         .memory = (size_t)1 << 30,
                         .version = 12020,
                         .capability = 90,
                         .threads = 2048,
                         .near = MAX_DEVICES,
                         .peers = USUAL_PEERS,
                         .pitch = INT32_MAX};
    snprintf(text, sizeof text, "%s", setting ? setting : "");
    for (char *word; (word = strtok_r(rest, ",", &rest));)
        if (!read_option(word, out))
            fake_complain(
                "TFD_FAKE_CUDA has \"%s\", which is none of "
                "devices:N, seed:N, memory:BYTES, version:N, "
                "capability:N, threads:N, fail:CALL:N[:ERROR], near:N, "
                "peers:N, pitch:BYTES, count and no-peers",
                word);
}
