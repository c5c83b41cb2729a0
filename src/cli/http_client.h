/*
 * http_client - the client of the commands. It prints errors, once, on stderr, and returns exit
 * statuses.
 *
 *     CLEANUP(client_close) struct client c = {0};
 *     struct client_reply reply;
 *     TRY(client_open(&c, &call->client));
 *     TRY(client_call(&c, &reply, NULL, "GET /group/%s", client_quote(&c, group)));
 *     json_each (task, reply.json) ...
 *
 * Replies live in the client's arena until arena_reset() or client_close(). One client is used by
 * one thread at a time.
 */
#ifndef CLI_HTTP_CLIENT_H
#define CLI_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "http/transport.h"

/* The server and token from the options and the environment. Exit status. */
struct client_config {
    const char *server; /* NULL: the default */
    const char *token;  /* NULL: none */
    struct transport_tls tls;
    char text[4096]; /* holds the token when it was in a file */
};

int client_configure(const struct client_options *o, struct client_config *ret_config);

/* The members may be changed between calls. */
struct client {
    struct transport *transport;
    struct arena arena; /* of the replies, for whatever should live as long */
    int64_t wait_ms;    /* the server may take so long, on top of the usual timeout, to reply */
    bool repeatable;    /* requests have a requestid or change nothing: if the reply is lost, they
                              are repeated, a few times */
    bool silent;        /* print nothing; client_describe() gives the message */
    int err;            /* of the last call: 0, it had a reply, or an error */
    struct err_info error; /* its message */
};

/* Opens a zeroed client. Does not connect yet. Exit status. */
int client_open(struct client *c, const struct client_options *o);
int client_connect(struct client *c, const struct client_config *config); /* the same */
void client_close(struct client *c); /* safe if it was never opened */

struct client_reply {
    int status;              /* of HTTP */
    struct str body;         /* NUL-terminated */
    const struct json *json; /* the body; NULL when it is empty or no JSON */
};

/*
 * Sends a request, "POST /v1/nodes/%s/start", and returns the reply. body is JSON text, NULL: none.
 * CMD_OK: the status was 2xx. Otherwise the error has been printed, and the result is the exit
 * status: CMD_USAGE for 400, else CMD_FAILURE. After transport_set_stop() calls end with
 * CMD_FAILURE, without a message, once the descriptor is readable.
 */
int client_call(struct client *c, struct client_reply *ret_reply, const char *body,
                const char *request, ...) __attribute__((format(printf, 4, 5)));

/*
 * The same for callers that handle some error statuses: CMD_OK means that there was a reply,
 * whatever its status. client_refused() prints the errors of the reply and returns the exit status,
 * as above.
 */
int client_try(struct client *c, struct client_reply *ret_reply, const char *body,
               const char *request, ...) __attribute__((format(printf, 4, 5)));
/* The same with a body of bytes. */
int client_send(struct client *c, struct client_reply *ret_reply, struct str bytes,
                const char *request, ...) __attribute__((format(printf, 4, 5)));
int client_refused(const struct client *c, const struct client_reply *reply);

/* The message of the last call: why it had no reply, or what its reply says. */
void client_describe(const struct client *c, const struct client_reply *reply,
                     struct err_info *ret_error);

/* Text as a part of a path or a query, percent-encoded; in the arena. */
const char *client_quote(struct client *c, struct str text);

/* Prints the body of a reply on stdout, for --json: "{}" if it is empty. */
void client_print_json(const struct client_reply *reply);

/* "drover: ..." on stderr, as one write. Returns CMD_FAILURE. */
int client_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same about input of the user that is wrong. The value is CMD_USAGE. */
#define client_misuse(...) (client_error(__VA_ARGS__), CMD_USAGE)

/* Appends a file to b; "-" is standard input. Prints the error. Exit status. */
int client_read_file(const char *name, size_t len_max, struct buf *b);

/* The first line of a file, without its end; of an empty file, "". 0, or errno. */
int client_first_line(const char *file, char *text, size_t size);

#endif
