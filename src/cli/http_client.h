/*
 * client - what the commands speak to the server with. It prints what goes wrong, once, on stderr,
 * and gives back exit statuses.
 *
 *     struct client_options o = {0};
 *     const struct option options[] = {CLIENT_OPTIONS(o), {"limit", ...}};
 *     ...
 *     struct client *c = client_begin(&cmd, &o, &argc, argv, &status);
 *     if (!c)
 *         return status;
 *     status = client_call(c, "GET", "/groups", NULL, &reply);
 *     if (!status) json_each (group, reply.json) ...
 *     client_close(c);
 *
 * Replies live in the client's arena, until client_forget() or client_close(). One client is used by
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

struct client_options {
    const char *server;     /* --server, else $DROVER_URL, else http://127.0.0.1:8048 */
    const char *token_file; /* --token-file, else the token is in $DROVER_TOKEN, else none */
    bool json;              /* --json */
};

/* The rows of a command's table that every client has, and those of one that prints no answer. */
#define CLIENT_SERVER_OPTIONS(o)                                                                   \
    {"server", "URL",                                                                              \
     "The server, or several with commas, of which any will do. Default: $DROVER_URL, else\n"      \
     "http://127.0.0.1:8048.",                                                                     \
     option_text, &(o).server},                                                                    \
    {                                                                                              \
        "token-file", "FILE",                                                                      \
            "Send the token on the first line of this file. Default: $DROVER_TOKEN.", option_text, \
            &(o).token_file                                                                        \
    }

#define CLIENT_OPTIONS(o)                                                                          \
    CLIENT_SERVER_OPTIONS(o),                                                                      \
    {                                                                                              \
        "json", NULL, "Print what the server answered, as JSON.", option_flag, &(o).json           \
    }

/* What the options and the environment come to, for drover_client_open(). False: it has been said. */
struct client_config {
    const char *server; /* NULL: the default */
    const char *token;  /* NULL: none */
    char text[4096];    /* the token, when it was in a file */
};

bool client_configure(const struct client_options *o, struct client_config *ret_config);

struct client;

/* NULL when an option or a file is wrong, which has been said. Nothing is connected yet. */
struct client *client_open(const struct client_options *o);
void client_close(struct client *c);

/*
 * What most commands begin with: parses the arguments and opens a client. NULL: the command is over,
 * with *ret_status.
 */
struct client *client_begin(const struct cmd *cmd, const struct client_options *o, int *argc,
                            char **argv, int *ret_status);

struct client_reply {
    int status;              /* of HTTP */
    struct str body;         /* as it came, NUL-terminated */
    const struct json *json; /* the body; NULL when it is empty or no JSON */
};

/*
 * Sends a request and gives back the answer. body is JSON text, NULL: none. CMD_OK: the server
 * answered 2xx. Otherwise what it said stands on stderr, and the result is the exit status: CMD_USAGE
 * for 400, which says that what was asked for makes no sense, else CMD_FAILURE.
 */
int client_call(struct client *c, const char *method, const char *path, const char *body,
                struct client_reply *ret_reply);

/*
 * The same for callers that have a use for some refusals: CMD_OK means that the server answered,
 * whatever the status; client_refused() then prints the errors of the reply and gives back the exit
 * status, as above.
 */
int client_try(struct client *c, const char *method, const char *path, const char *body,
               struct client_reply *ret_reply);
int client_refused(const struct client *c, const struct client_reply *reply);

/* A call in which the server may wait that long before it answers. */
void client_set_wait(struct client *c, int64_t wait_ms);

/*
 * From now on calls carry a requestid, or only look: when an answer is lost, the same is sent again, a
 * few times.
 */
void client_set_repeatable(struct client *c);

/* Calls end with CMD_FAILURE, and without a word, once this descriptor can be read. */
void client_set_stop(struct client *c, int fd);

/* Text as a part of a path or a query, percent-encoded; in the arena. */
const char *client_quote(struct client *c, struct str text);

/* The arena, for whatever should live as long as the replies; and its end. */
struct arena *client_arena(struct client *c);
void client_forget(struct client *c);

/* The server as configured, for messages. */
const char *client_server(const struct client *c);

/* Prints the body of a reply on stdout, ending in a newline: what --json does. */
void client_print_json(const struct client_reply *reply);

/* "drover: ..." on stderr. Returns CMD_FAILURE. */
int client_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
