/*
 * auth - recognises clients: users of this machine, tokens, and anybody on loopback.
 *
 *   on a Unix socket   the user who runs the server, and root, are administrators; others have the
 *                      loopback roles
 *   with a token       what the token was made for. A command has one that is valid while its
 *                      node runs: it may add nodes below its node and change these, and has the
 *                      loopback roles beside that
 *   with a certificate that the authorities of --tls-ca have signed: the roles that --tls-role
 *                      gives to its names; if it gives none, as without
 *   on loopback        the loopback roles
 *   else               nothing
 *
 * Tokens are kept as their SHA-256. Where a token is named, it is so by the first characters of
 * that (AUTH_ID_LEN), which tell nothing about the token.
 *
 * In order: auth_open -> auth_replace, auth_identify -> auth_close, when no server uses it.
 */
#ifndef SERVER_AUTH_H
#define SERVER_AUTH_H

#include "base/identity.h"
#include "base/sha2.h"
#include "http/server.h"
#include "keeper/keeper.h"
#include "server/reload.h"

#define AUTH_KEY_NODE "/drover/secret"

enum {
    AUTH_TOKEN_LEN_MIN = 16,
    AUTH_TOKEN_LEN_MAX = 1024,
    AUTH_HASH_LEN = 2 * SHA256_LEN, /* in hex */
    AUTH_ID_LEN = 12,
    AUTH_TOKENS_MAX = 10000,
    AUTH_CERTIFICATES_MAX = 64,
    AUTH_KEY_LEN = 64,
    AUTH_NODE_TOKEN_SIZE = 128,
};

struct auth;

/* The roles of a client certificate, by a name in it: all of the name, or a prefix and "*". */
struct auth_certificates {
    struct {
        struct str name;
        unsigned roles;
    } items[AUTH_CERTIFICATES_MAX];
    size_t count;
};

struct auth_options {
    unsigned loopback_roles;
    const struct auth_certificates *certificates; /* NULL: none. Lives as long as the auth */
    const char *token_file;                       /* its token is an administrator's; NULL: none */
};

int auth_open(const struct auth_options *o, struct auth **ret_auth, struct err_info *ret_error);
void auth_close(struct auth *a); /* NULL is allowed */

/*
 * Makes the administrator's token in a data directory, unless it is there, and accepts it. One that
 * others can read is replaced, with a warning in the log.
 */
int auth_make_admin_token(struct auth *a, const char *data_dir, struct err_info *ret_error);

/* At a reload, reads the files of tokens again. */
struct reload_hook auth_reload_hook(struct auth *a);

/* A token and who has it. */
struct auth_token {
    char hash[AUTH_HASH_LEN + 1]; /* the SHA-256, in hex */
    struct identity *who;
};

/* The hash of a token. */
void auth_hash(struct str token, char ret_hash[AUTH_HASH_LEN + 1]);

/* From now on these are the tokens, beside those of files. Takes the array and its references. */
void auth_replace(struct auth *a, struct auth_token *tokens, size_t count);

/*
 * The tokens of commands: "node-17-1-", the node and its attempt, and a hash of both with the key.
 * The key is in AUTH_KEY_NODE. `runs` says whether that attempt runs; it is called on the thread
 * that identifies. NULL: none.
 */
typedef bool auth_runs_fn(void *arg, uint64_t node, uint32_t attempt);

int auth_load_key(struct auth *a, struct keeper *k); /* makes it if it is missing */
void auth_set_nodes(struct auth *a, auth_runs_fn *runs, void *arg);
void auth_node_token(struct auth *a, uint64_t node, uint32_t attempt,
                     char ret_token[AUTH_NODE_TOKEN_SIZE]);

/* For http_options. auth_identify may be called on any thread. */
struct identity *auth_identify(void *auth, const struct http_peer *peer, struct str token);
const atomic_uint_fast64_t *auth_generation(const struct auth *a);

#endif
