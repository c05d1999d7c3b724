/*
 * golden.h - folders of cases: one test for each file, with the expected output
 * beside it
 *
 * A file of a folder is a case; the expected output is in a file of the same
 * name with another ending.  With TFD_BLESS=1 in the environment the output is
 * written there instead of compared: look at the diff before you commit it.
 *
 * Everything returned is in a.
 */
#ifndef TFD_TESTS_UNIT_GOLDEN_H
#define TFD_TESTS_UNIT_GOLDEN_H

#include "tests/unit/unit.h"

#include "ir/base/arena.h"
#include "ir/base/vec.h"

typedef VEC(const char *) Paths;

/* Terminated; *len without that.  A file that cannot be read fails the test. */
const char *golden_read(Arena *a, const char *path, size_t *len);

/* "x/NAME.tfd" and ".txt" give "x/NAME.txt". */
const char *golden_sibling(Arena *a, const char *path, const char *ending);

/* What follows the last slash. */
const char *golden_name(const char *path);

bool golden_blesses(void);

/* Fails the test, and shows both, where they differ. */
void golden_expect_equal(const char *about, const char *have, const char *want);

/* have is the content of the file; NULL: there is no such file. */
void golden_expect(Arena *a, const char *path, const char *have);

/* The files that end so (".tfd"), in order of their names. */
Paths golden_list(Arena *a, const char *folder, const char *ending);

/* body once for each of the files, with its path as *state; the number of
 * failures, as cmocka's groups return it.  A folder without cases is one. */
int golden_run(Arena *a, const char *group, const char *folder,
               const char *ending, CMUnitTestFunction body);
/* The same for files that are listed. */
int golden_run_paths(Arena *a, const char *group, Paths paths,
                     CMUnitTestFunction body);

#endif
