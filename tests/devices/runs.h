/*
 * runs.h - runs programs for a test, and returns their output
 */
#ifndef TFD_TESTS_DEVICES_RUNS_H
#define TFD_TESTS_DEVICES_RUNS_H

#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

#include "tests/devices/build.h"

/* Main for a dataset @d of i64[b]: each step sums its elements, %1 a replica's
 * and %2 all, and then does body. */
#define EACH_STEP(body)                                                        \
    "iter @it of @d shard auto rows n\n"                                       \
    "func @main() main {\n"                                                    \
    "  iter_open {iter=@it}\n"                                                 \
    "  while {\n"                                                              \
    "    %0: bool = iter_has_next {iter=@it}\n"                                \
    "    yield %0\n"                                                           \
    "  } {\n"                                                                  \
    "    %x: i64[n] per_replica = iter_next {iter=@it}\n"                      \
    "    run {\n"                                                              \
    "      %1: i64 per_replica = sum %x {axes=[0]}\n"                          \
    "      %2: i64 mirrored = all_reduce %1 {op=sum}\n" body                   \
    "      yield\n"                                                            \
    "    }\n"                                                                  \
    "    yield\n"                                                              \
    "  }\n"                                                                    \
    "  return\n"                                                               \
    "}\n"

static inline const char *
program(int n, const char *body)
{
    return build_program(arena, n, body);
}

static inline Result
run_with(const char *text, RtOptions options)
{
    return build_run(arena, build_plan(arena, text), options);
}

static inline void
assert_prints(const char *text, RtOptions options, const char *want)
{
    Result r = run_with(text, options);
    if (r.st)
        fail_msg("%s", status_message(r.st));
    assert_string_equal(r.out, want);
}

static inline void
assert_fails(const char *text, RtOptions options, StatusKind kind,
             const char *part)
{
    Result r = run_with(text, options);
    assert_status_says(r.st, kind, part);
}

#endif
