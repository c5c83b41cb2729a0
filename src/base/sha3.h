/*
 * sha3 - SHA3-256 of a text (FIPS 202), for ZooKeeper's digest access lists, as sha1.
 */
#ifndef BASE_SHA3_H
#define BASE_SHA3_H

#include "base/str.h"

enum { SHA3_256_LEN = 32 };

void sha3_256(struct str text, unsigned char ret_sum[SHA3_256_LEN]);

#endif
