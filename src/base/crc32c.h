/*
 * crc32c - the Castagnoli checksum of every record on disk.
 *
 * crc32c(0, data, len) is the usual value; crc32c(crc32c(0, a), b) is that of a followed by b.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* Without the processor's instruction, for tests and other machines. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len);

#endif
