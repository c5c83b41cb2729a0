/*
 * sha2 - SHA-256 and SHA-512 of a text (FIPS 180-4), for ZooKeeper's digest access lists, as sha1,
 * and for tokens; and the hash with a key that is made of the first (RFC 2104).
 */
#ifndef BASE_SHA2_H
#define BASE_SHA2_H

#include "base/str.h"

enum { SHA256_LEN = 32, SHA512_LEN = 64 };

void sha256(struct str text, unsigned char ret_sum[SHA256_LEN]);
void sha512(struct str text, unsigned char ret_sum[SHA512_LEN]);

enum { HMAC_KEY_MAX = 64, HMAC_TEXT_MAX = 256 };

/* A key and a text of at most so many bytes. */
void hmac_sha256(struct str key, struct str text, unsigned char ret_sum[SHA256_LEN]);

#endif
