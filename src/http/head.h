/*
 * head - the head of an HTTP request: from the first byte to the empty line. Pure.
 *
 * In order: head_scan() over what has arrived, until it finds the end or something that no head may
 * hold; then head_parse() over the whole of it. What passes both can be read in one way only: each
 * line ends in CR LF and there is no other CR or LF, no line continues the one before, names are
 * tokens right before their colon, and there is one Host and one way to tell the length of the
 * body. Proxies and servers that read such things differently are how requests get smuggled.
 *
 * A head borrows from the bytes it was parsed from.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "http/router.h"

enum {
    HEAD_LEN_MAX = 16 * 1024,
    HEAD_FIELDS_MAX = 64,
};

struct head_field {
    struct str name, value;
};

struct head {
    enum method method;
    bool head_only;         /* the method was HEAD: METHOD_GET, but the answer has no body */
    bool http_1_0;          /* else 1.1 */
    bool keep_alive;        /* the connection goes on afterwards */
    bool expects_continue;  /* the client waits for "100 Continue" before it sends the body */
    bool chunked;           /* the body comes in chunks */
    uint64_t content_len;   /* of a body that does not */
    struct str path, query; /* query without its '?' */
    struct str host;        /* empty: an HTTP/1.0 request without one */
    size_t field_count;
    struct head_field fields[HEAD_FIELDS_MAX];
};

/*
 * Looks at bytes that begin a request. *scanned says how many of them an earlier call has seen (0
 * at first) and is moved on. Returns the length of the head, 0 when more bytes are needed, or the
 * negative HTTP status to answer with: -400 for a byte that may not be there, -431 when too long.
 */
ssize_t head_scan(const char *p, size_t len, size_t *scanned);

/*
 * Parses a whole head. Returns 0, or the HTTP status to answer with, and then *ret_reason is one
 * sentence about it that lives for ever.
 */
int head_parse(struct head *h, const char *p, size_t len, const char **ret_reason);

/* The value of a field, or NULL. Names are compared without regard to case. */
const struct str *head_field(const struct head *h, const char *name);

#endif
