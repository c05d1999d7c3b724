/*
 * fuzzer.c - a target for libFuzzer; the build says which
 *
 * A machine without memory ends a program with _Exit, which libFuzzer does not
 * see; the linker leads it here (--wrap), so that such an input is kept.
 *
 * Texts are spliced of pieces of those in the corpus, three times of four;
 * libFuzzer's own bytes would hardly ever get past a parser.
 */
#include <stdint.h>
#include <string.h>
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/splice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
_Noreturn void __wrap__Exit(int status);
_Noreturn void __real__Exit(int status);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_target(FUZZ_TARGET)->run("fuzz", (const char *)data, size);
    return 0;
}

#ifdef FUZZ_TEXT

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *x, size_t x_size,
                                 const uint8_t *y, size_t y_size, uint8_t *out,
                                 size_t max, unsigned seed);

size_t
LLVMFuzzerCustomCrossOver(const uint8_t *x, size_t x_size, const uint8_t *y,
                          size_t y_size, uint8_t *out, size_t max,
                          unsigned seed)
{
    Arena *a = arena_new(NULL, "splice");
    Bytes into = {arena_copy(a, x, x_size), x_size};
    Bytes from = {arena_copy(a, y, y_size), y_size};
    Bytes made = splice(a, into, from, seed, max);
    size_t len = made.len < max ? made.len : max;
    memcpy(out, made.data, len);
    arena_release(a);
    return len;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    if (seed % 4 == 0)
        return LLVMFuzzerMutate(data, size, max);
    return LLVMFuzzerCustomCrossOver(data, size, data, size, data, max, seed);
}

#endif

/* libFuzzer ends so itself, once it has kept an input. */
static bool
is_of_libfuzzer(int status)
{
    return status == 70 || status == 71 || status == 77; /* time, memory, bug */
}

_Noreturn void
__wrap__Exit(int status)
{
    if (is_of_libfuzzer(status))
        __real__Exit(status);
    fuzz_bug("the process ended with status %d", status);
}
