/*
 * head - the parts of an HTTP request: its head, a chunked body, the query; a cache of heads. Pure.
 *
 * In order: head_scan() over the bytes that have arrived, until it finds the end of the head or an
 * invalid byte; then head_parse() over the head. A head that passes both has one meaning only: each
 * line ends in CR LF and there is no other CR or LF, no line continues the one before, names are
 * tokens right before their colon, there is one Host and one way to tell the length of the body.
 * Request smuggling depends on proxies and servers that read such things differently.
 *
 * A head borrows from the bytes it was parsed from.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "http/route.h"

enum {
    HEAD_LEN_MAX = 16 * 1024,
    HEAD_FIELDS_MAX = 64,
};

struct head_field {
    struct str name, value;
};

struct head {
    enum method method;
    bool head_only;         /* the method was HEAD: METHOD_GET, with no body in the answer */
    bool http_1_0;          /* else 1.1 */
    bool keep_alive;        /* the connection stays open afterwards */
    bool expects_continue;  /* the client waits for "100 Continue" before it sends the body */
    bool chunked;           /* chunked transfer coding */
    uint64_t content_len;   /* of a body that is not chunked */
    struct str path, query; /* query without its '?' */
    struct str host;        /* empty: an HTTP/1.0 request without one */
    size_t field_count;
    struct head_field fields[HEAD_FIELDS_MAX];
};

/*
 * Scans the first bytes of a request. *scanned is how many of them an earlier call has scanned (0
 * at first) and is updated. Returns the length of the head, 0 when more bytes are needed, or the
 * negative HTTP status to answer with: -400 for an invalid byte, -431 when it is too long.
 */
ssize_t head_scan(const char *p, size_t len, size_t *scanned);

/*
 * Parses a whole head. Returns 0, or the HTTP status to answer with; *ret_reason is then a constant
 * sentence about it.
 */
int head_parse(struct head *h, const char *p, size_t len, const char **ret_reason);

/* The value of a header field, or NULL. Names are compared without regard to case. */
const struct str *head_field(const struct head *h, const char *name);

/*
 * A body in chunked transfer coding. Strict: a size is one to eight hexadecimal digits and CR LF.
 * Chunk extensions and trailers are refused: our clients do not send them, and proxies disagree
 * about their meaning. Zero-initialise; feed it the bytes that arrive until `done`.
 */
struct chunk {
    int state;
    int digits;
    uint32_t left; /* bytes of the present chunk */
    bool done;
};

/*
 * Appends the decoded bytes to body, up to max. Returns how many input bytes were used (all,
 * unless done), or the negative HTTP status to answer with: -400 malformed, -413 too long.
 */
ssize_t chunk_feed(struct chunk *c, const char *p, size_t len, struct buf *body, size_t max);

/*
 * The query: "name=value" pairs between '&'; a name without '=' has the empty value. Escapes are
 * decoded, '+' is a space. Strict: malformed escapes and repeated names are refused, because
 * programs disagree about which of two values counts.
 */
enum { QUERY_MAX = 64 }; /* parameters */

struct query_param {
    struct str name, value;
};

struct query {
    struct query_param *params;
    size_t count;
};

/* Decodes escapes. Text without any is returned as it is, else a copy in the arena. */
bool query_unescape(struct arena *a, struct str text, bool plus_is_space, struct str *ret_text);

/* NULL, or one sentence about what is wrong. */
const char *query_parse(struct arena *a, struct str text, struct query *ret_query);

bool query_has(const struct query *q, struct str name);

/*
 * Parsed heads of earlier requests. Clients repeat their heads: one that equals, byte for byte, a
 * head that was parsed and routed before is not parsed again. Only what is the same for every
 * connection is cached; the Host and the sender are checked each time.
 */
enum {
    HEAD_CACHE_MAX = 256,
    HEAD_CACHE_LEN_MAX = 1024, /* longer heads are not cached */
};

struct cached_head;

/* Direct-mapped: a new entry evicts the old one. */
struct head_cache {
    struct cached_head *places[HEAD_CACHE_MAX];
};

void head_cache_release(struct head_cache *s);

/* The cached head that the bytes begin with, and its length; NULL: none. */
const struct cached_head *head_cache_find(const struct head_cache *s, const char *p, size_t len,
                                          size_t *ret_len);

/* Copies the cached head, with `text`, its bytes, in place of the old ones. Returns its route. */
const struct router_row *head_cache_use(const struct cached_head *k, const char *text,
                                        struct head *h, struct str params[ROUTE_PARAMS_MAX]);

/* Adds a head that was parsed from text, with its route and the parameters of its path. */
void head_cache_add(struct head_cache *s, struct str text, const struct head *h,
                    const struct router_row *row, const struct str params[ROUTE_PARAMS_MAX]);

#endif
