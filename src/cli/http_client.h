/*
 * http_client - the client of the commands. It prints errors, once, on stderr, and returns exit
 * statuses.
 *
 *     struct client *c = client_open(&call->client);
 *     if (!c)
 *         return CMD_FAILURE;
 *     status = client_call(c, "GET", "/groups", NULL, &reply);
 *     if (!status) json_each (group, reply.json) ...
 *     client_close(c);
 *
 * Replies live in the client's arena, until client_forget() or client_close(). One client is used
 * by one thread at a time.
 */
#ifndef CLI_HTTP_CLIENT_H
#define CLI_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cmd.h"

/* The server and token from the options and the environment. False: the error has been printed. */
struct client_config {
    const char *server; /* NULL: the default */
    const char *token;  /* NULL: none */
    char text[4096];    /* holds the token when it was in a file */
};

bool client_configure(const struct client_options *o, struct client_config *ret_config);

struct client;

/* NULL: the error has been printed. Does not connect yet. */
struct client *client_open(const struct client_options *o);
void client_close(struct client *c);

struct client_reply {
    int status;              /* of HTTP */
    struct str body;         /* NUL-terminated */
    const struct json *json; /* the body; NULL when it is empty or no JSON */
};

/*
 * Sends a request and returns the reply. body is JSON text, NULL: none. CMD_OK: the status was 2xx.
 * Otherwise the error has been printed, and the result is the exit status: CMD_USAGE for 400, else
 * CMD_FAILURE.
 */
int client_call(struct client *c, const char *method, const char *path, const char *body,
                struct client_reply *ret_reply);

/*
 * The same for callers that handle some error statuses: CMD_OK means that there was a reply,
 * whatever its status. client_refused() prints the errors of the reply and returns the exit status,
 * as above.
 */
int client_try(struct client *c, const char *method, const char *path, const char *body,
               struct client_reply *ret_reply);
int client_refused(const struct client *c, const struct client_reply *reply);

/* Further calls allow the server this long, on top of the usual timeout, to reply. */
void client_set_wait(struct client *c, int64_t wait_ms);

/*
 * Further calls carry a requestid or change nothing: when the reply is lost, the request is
 * repeated, a few times.
 */
void client_set_repeatable(struct client *c);

/*
 * Further calls print nothing. client_describe() gives the message: of the last call, which had no
 * reply, or of a reply.
 */
void client_set_silent(struct client *c);
void client_describe(const struct client *c, const struct client_reply *reply,
                     struct err_info *ret_error);

/* Calls end with CMD_FAILURE, without a message, once this descriptor is readable. */
void client_set_stop(struct client *c, int fd);

/* Text as a part of a path or a query, percent-encoded; in the arena. */
const char *client_quote(struct client *c, struct str text);

/* The arena of the replies, for whatever should live as long; client_forget() empties it. */
struct arena *client_arena(struct client *c);
void client_forget(struct client *c);

/* The configured server, for messages. */
const char *client_server(const struct client *c);

/* Prints the body of a reply on stdout, for --json: "{}" if it is empty. */
void client_print_json(const struct client_reply *reply);

/* "drover: ..." on stderr, as one write. Returns CMD_FAILURE. */
int client_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
