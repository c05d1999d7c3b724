/*
 * crc.c - the check sum of TFRecord files
 *
 * ISA-L computes it, by an instruction of the processor where there is one.
 */
#include "ir/base/hash/crc.h"

#include <isa-l/crc.h>

enum { MOST = 1 << 30 }; /* ISA-L counts in int */

uint32_t
crc32c(const void *bytes, size_t n)
{
    /* ISA-L only reads, but its parameter is not const */
    unsigned char *at = (unsigned char *)bytes;
    uint32_t crc = UINT32_MAX;
    for (size_t part; n > 0; at += part, n -= part) {
        part = n < MOST ? n : MOST;
        crc = crc32_iscsi(at, (int)part, crc);
    }
    return ~crc;
}

uint32_t
crc32c_masked(const void *bytes, size_t n)
{
    uint32_t crc = crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}
