/*
 * code_cache.h - whether tests share what LLVM makes of kernels
 *
 * Many suites compile the same kernels: those of the examples, as objects for
 * this CPU and as PTX.  Where ./setup test has all builds share code by LLVM's
 * module (TFD_CACHE_MODULES=1), they do, too: each emits all of its modules,
 * and LLVM compiles one that is the same to the bit but once.  Elsewhere
 * nothing is kept.  For `cache` of BeOptions, beside by_module: the text of a
 * kernel that a test has changed is not what it is.
 */
#ifndef TFD_TESTS_CODEGEN_CODE_CACHE_H
#define TFD_TESTS_CODEGEN_CODE_CACHE_H

#include <stdlib.h>
#include <string.h>

static inline const char *
code_cache(void)
{
    const char *modules = getenv("TFD_CACHE_MODULES");
    return modules && !strcmp(modules, "1") ? NULL : "";
}

#endif
