/*
 * fuzzer.c - a target for libFuzzer; the build says which
 *
 * A machine without memory ends a program with _Exit, which libFuzzer does not
 * see; the linker leads it here (--wrap), so that such an input is kept.
 */
#include <stdint.h>
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
_Noreturn void __wrap__Exit(int status);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_target(FUZZ_TARGET)->run("fuzz", (const char *)data, size);
    return 0;
}

_Noreturn void
__wrap__Exit(int status)
{
    fuzz_bug("the process ended with status %d", status);
}
