/*
 * status.h - checks of failures that tests expect
 */
#ifndef TFD_TESTS_UNIT_STATUS_H
#define TFD_TESTS_UNIT_STATUS_H

#include "tests/unit/unit.h"

#include "ir/base/status.h"

/* That st, which is freed, is a failure of that kind with that message. */
static inline void
assert_status(Status st, StatusKind kind, const char *message)
{
    assert_non_null(st);
    assert_int_equal(status_kind(st), kind);
    assert_string_equal(status_message(st), message);
    status_free(st);
}

/* The same of a part of its message. */
static inline void
assert_status_says(Status st, StatusKind kind, const char *part)
{
    assert_non_null(st);
    assert_int_equal(status_kind(st), kind);
    if (!strstr(status_message(st), part))
        fail_msg("\"%s\" is not in: %s", part, status_message(st));
    status_free(st);
}

#endif
