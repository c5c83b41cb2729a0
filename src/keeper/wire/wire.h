/*
 * wire - ZooKeeper's client protocol, served from the embedded keeper.
 *
 * Any client of ZooKeeper 3.4 to 3.8 can use the tree: sessions with their passwords, ephemeral and
 * sequential nodes, transactions, access lists, watches of every kind, and the four-letter words.
 * There is one server, which is always the leader, and it syncs the changes of many clients
 * together.
 *
 * Everything runs on one loop. A request is executed when it has arrived completely; its answer
 * waits in the connection's queue until it may pass the gate (journal/gate.h). Answers leave in the
 * order of the requests, and the event of a watch leaves before the first answer that could show
 * the change.
 *
 * Reconfiguration is refused, and SASL is answered as by a ZooKeeper that has none.
 * doc/zookeeper.md has what is supported, and every known difference from ZooKeeper 3.8.
 */
#ifndef KEEPER_WIRE_WIRE_H
#define KEEPER_WIRE_WIRE_H

#include <uv.h>

#include "base/buf.h"
#include "base/door.h"
#include "base/identity.h"
#include "base/option.h"
#include "base/tls.h"
#include "keeper/local/local.h"

enum {
    WIRE_PACKET_MAX = 1024 * 1024 - 1,
    WIRE_PACKET_LIMIT = 4 * 1024 * 1024, /* of packet_max: what fits into a record of the journal */
    WIRE_CONNECTIONS_MAX = 10000,
    WIRE_SESSIONS_MAX = 20000,
    WIRE_MEMORY_MAX = 256 * 1024 * 1024, /* unread answers and unfinished requests of all */
    WIRE_BACKLOG = 4096,                 /* after a restart all clients connect at once */
    WIRE_UNSENT_MAX = 4 * 1024 * 1024, /* unread answers at which its requests are no longer read */
    WIRE_OUTSTANDING_MAX = 4096,       /* answers waiting for the disk, likewise */
    WIRE_EVENTS_MAX = 4 * 1024 * 1024, /* unread watch events at which the connection is closed */
    WIRE_READS_MAX = 16 * 1024 * 1024, /* bytes that a multiRead answers */
    WIRE_WATCHES_MAX = 100000,         /* of one connection */
    WIRE_IDS_MAX = 16,                 /* identities of a connection */
    WIRE_CREDENTIAL_MAX = 4096,        /* bytes of user:password */
    WIRE_HELLO_MS = 10 * 1000,         /* to send the connect request */
    WIRE_FINISH_MS = 10 * 1000,        /* to read the last answer */
    WIRE_TRACE_MASK = 306,             /* ZooKeeper's default */
};

/* The sum in ids of the scheme digest. */
enum wire_digest { WIRE_SHA1, WIRE_SHA256, WIRE_SHA512, WIRE_SHA3_256, WIRE_NO_DIGEST };

/*
 * Who may do what: identify returns a reference to the identity behind a token, or, for the empty
 * one, behind the certificate, if there is one, or none; NULL: the token is wrong. A change of
 * *generation ends what was recognised. Any thread. identify NULL: anybody may do everything.
 *
 * audit is told of each change below /drover before it is made, and of each request that is refused
 * because a role is missing, under the lock of the store; false: the change may not be made. NULL:
 * not called.
 */
struct wire_change {
    const char *who, *from, *verb; /* "create", "set", "delete", "setAcl", "read", ... */
    struct str path;
    bool refused;
};

struct wire_rights {
    struct identity *(*identify)(void *arg, bool is_loopback, const struct tls_peer *certificate,
                                 struct str token);
    const atomic_uint_fast64_t *generation;
    void *arg;
    bool (*audit)(void *audit_arg, const struct wire_change *change);
    void *audit_arg;
};

/* What `drover serve` lets the operator choose; 0: the default. */
struct wire_options {
    struct option_addresses listen;
    struct option_addresses tls_listen; /* with TLS */
    struct tls_context *tls;            /* of these; NULL: there are none. Outlives the wire */
    int64_t packet_max;                 /* bytes of a request */
    int64_t connections_max;
    int64_t connections_per_address;        /* default: a quarter; no limit for loopback */
    int64_t memory_max;                     /* bytes that all connections may hold together */
    int64_t sessions_max;                   /* of the store; new ones beyond it are refused */
    int64_t timeout_min_ms, timeout_max_ms; /* of sessions */
    int64_t hello_ms;                       /* from the connection to the connect request */
    const char *super_file;                 /* user:digest of the superuser; NULL: there is none */
    int digest;                             /* enum wire_digest */
    bool require_auth; /* nothing is answered before the client is known by its digest */
    bool skip_acl;     /* access lists are kept and not enforced */
    bool no_ttl;       /* refuse nodes with a time to live */
    uint32_t words;    /* the four-letter words allowed: wire_words_parse() */
    struct wire_rights rights;
    bool enforce_quota; /* refuse what exceeds a hard limit, warn of soft ones */
};

/*
 * "ruok,mntr" or "*", as ZooKeeper's 4lw.commands.whitelist. Unknown words are ignored, as there;
 * the first of them is returned, and is empty if there is none.
 */
struct str wire_words_parse(const char *list, uint32_t *ret_set);
const char *wire_words_default_text(void);

struct wire;

/* Binds and listens. Call wire_serve with the store before the loop runs. */
int wire_listen(uv_loop_t *loop, const struct wire_options *o, struct wire **ret_wire,
                struct err_info *ret_error);
void wire_serve(struct wire *w, struct local *l);

/*
 * Other options for a running server: the limits and timeouts, the words, the quotas and the
 * superuser; the rest stays as it was. Connections keep what they were granted. On the loop.
 * wire_prepare() reads the file of the superuser, and only this can fail. What it gives is for
 * wire_change(), or for free().
 */
int wire_prepare(const struct wire *w, const char *super_file, char **ret_super,
                 struct err_info *ret_error);
void wire_change(struct wire *w, const struct wire_options *o, char *super);

/* "127.0.0.1:8049", of the listener number i, plain ones first; NULL: there are fewer. */
const char *wire_address(const struct wire *w, size_t i);
bool wire_is_tls(const struct wire *w, size_t i);

/*
 * The four-letter words as JSON, for HTTP. Each has the name that ZooKeeper's AdminServer gives it.
 * What the words on the port are allowed does not matter here. On the loop.
 */
enum {
    WIRE_COMMAND_CHANGES = 1, /* it resets or sets something */
    WIRE_COMMAND_MASK = 2,    /* namely the mask */
};

struct wire_command {
    char word[5];
    const char *name;
    int flags;
};

const struct wire_command *wire_command_at(size_t i);          /* NULL: no more */
const struct wire_command *wire_command_find(struct str name); /* or the word; NULL: none */
void wire_command_run(struct wire *w, const struct wire_command *command, int64_t mask,
                      struct buf *json);

/* What its limits have let in and refused, since the start. On the loop. */
struct wire_counts {
    size_t connections;
    uint64_t answers[DOOR_ANSWERS];
    uint64_t sessions_refused;
    size_t memory;    /* bytes that all connections hold together */
    uint64_t evicted; /* connections closed because that was too much */
};

void wire_counts(const struct wire *w, struct wire_counts *ret_counts);

/* Closes everything; sessions end by their timeouts. Frees itself on the loop. */
void wire_close(struct wire *w);

#endif
