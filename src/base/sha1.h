/*
 * sha1 - SHA-1 of a text (FIPS 180-4), and base64 of bytes (RFC 4648).
 *
 * ZooKeeper's digest access lists identify users by them; nothing else depends on them. They are
 * here because a cryptographic library would take more memory than ten thousand nodes.
 */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include "base/buf.h"

enum { SHA1_LEN = 20 };

void sha1(struct str text, unsigned char ret_sum[SHA1_LEN]);

#define BASE64_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/* Appends, with padding. */
void base64_put(struct buf *b, const unsigned char *bytes, size_t len);

#endif
