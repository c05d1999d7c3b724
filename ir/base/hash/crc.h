/*
 * crc.h - the check sum of TFRecord files
 */
#ifndef TFD_IR_BASE_CRC_H
#define TFD_IR_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli), as iSCSI has it: 0xe3069283 of "123456789". */
uint32_t crc32c(const void *bytes, size_t n);

/* The same as stored in TFRecord files, where the sum of data that contains
 * such sums must remain meaningful: rotated by 15 bits, plus a constant
 * (TensorFlow, core/lib/hash/crc32c.h). */
uint32_t crc32c_masked(const void *bytes, size_t n);

#endif
