/*
 * sha2 - SHA-256 and SHA-512 of a text (FIPS 180-4), for ZooKeeper's digest access lists, as sha1.
 */
#ifndef BASE_SHA2_H
#define BASE_SHA2_H

#include "base/str.h"

enum { SHA256_LEN = 32, SHA512_LEN = 64 };

void sha256(struct str text, unsigned char ret_sum[SHA256_LEN]);
void sha512(struct str text, unsigned char ret_sum[SHA512_LEN]);

#endif
