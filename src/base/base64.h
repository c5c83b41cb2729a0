/*
 * base64 - bytes as text and back (RFC 4648, section 4).
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

#define BASE64_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/* Appends, with padding. */
void base64_put(struct buf *b, const unsigned char *bytes, size_t len);

/*
 * Appends the bytes of a text. False: it is not what base64_put() writes for any bytes, and b has
 * some of them.
 */
bool base64_read(struct str text, struct buf *b);

#endif
