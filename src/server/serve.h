/*
 * serve - the server: a keeper, the modules on it, HTTP and ZooKeeper's protocol in front.
 */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include "base/option.h"
#include "base/tls.h"
#include "keeper/local/local.h"
#include "keeper/wire/wire.h"
#include "keeper/zookeeper/zookeeper.h"
#include "server/auth.h"

struct module;
struct reload_source;

struct serve_options {
    const char *data;                    /* the data directory */
    bool makes_parents;                  /* its parents are made if they are missing */
    const char *keeper, *zk_auth;        /* of an ensemble; NULL: the embedded keeper */
    struct zookeeper_tls zk_tls;         /* likewise */
    int journal;                         /* enum local_mode */
    struct option_addresses http, https; /* where to listen */
    bool insecure_network;               /* http may be other than loopback */
    struct tls_options tls;              /* cert NULL: none */
    struct auth_certificates certificates;
    struct wire_options wire;
    const char *socket;     /* the path of the Unix socket, or "none" */
    bool socket_is_default; /* another server may have it */
    int socket_fd;          /* a Unix socket that listens already, instead; 0: none */
    int64_t socket_mode;
    const char *socket_group;      /* NULL: that of the process */
    unsigned loopback_roles;       /* of a request without a token */
    const char *token_file;        /* NULL: none */
    const char *audit;             /* the audit log; NULL: none */
    struct option_list http_hosts; /* further names of this server */
    int64_t snapshot_every, http_timeout_ms, zk_timeout_ms, zk_reap_ms; /* or 0 */
    int64_t connections_max, connections_per_address, waits_max;        /* or 0 */
    int64_t memory;                      /* of requests and answers, of both ports; or 0 */
    int log_format, log_level;           /* enum log_format, enum log_level */
    const struct module *const *modules; /* at most MODULES_MAX, then NULL */
    const struct reload_source *source;  /* of all this, for SIGHUP */
};

/*
 * Runs until TERM or INT. Returns 0, or why it could not start, which it has logged. The source
 * changes the options themselves: SIGHUP uses what they are then.
 */
int serve(const struct serve_options *o);

#endif
