/*
 * sha1 - SHA-1 of a text (FIPS 180-4).
 *
 * ZooKeeper's digest access lists identify users by it; nothing else depends on it. It is here
 * because a cryptographic library would take more memory than ten thousand nodes.
 */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include "base/buf.h"

enum { SHA1_LEN = 20 };

void sha1(struct str text, unsigned char ret_sum[SHA1_LEN]);

#endif
