/*
 * The transport with options and environment as input, messages on stderr and exit statuses as
 * output.
 */
#include "cli/http_client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/transport.h"

struct client {
    struct transport *transport;
    struct arena arena;
    int64_t wait_ms;
    bool repeatable, silent;
    struct err_info error; /* of the last call, when it had no reply */
};

enum { REPEATS_MAX = 3 };

int client_error(const char *fmt, ...)
{
    char *text;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        err_fatal("out of memory");
    va_end(ap);
    fprintf(stderr, "drover: %s\n", text);
    free(text);
    return CMD_FAILURE;
}

/* Open and close. */

/* A token goes into a header: printable, no spaces. */
static bool is_token(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* Reads the first line of a file. False: the error has been printed. */
static bool read_token(const char *file, char *text, size_t size)
{
    FILE *in = fopen(file, "re");

    if (!in) {
        client_error("--token-file: %s: %s", file, strerror(errno));
        return false;
    }
    if (!fgets(text, (int)size, in))
        text[0] = '\0';
    fclose(in);
    text[strcspn(text, "\r\n")] = '\0';
    if (is_token(text))
        return true;
    client_error("--token-file: %s: the first line is not a token", file);
    return false;
}

bool client_configure(const struct client_options *o, struct client_config *ret_config)
{
    const char *url = getenv("DROVER_URL"), *token = getenv("DROVER_TOKEN");

    ret_config->server = o->server ? o->server : url && *url ? url : NULL;
    ret_config->token = token && *token ? token : NULL;
    if (o->token_file) {
        ret_config->token = ret_config->text;
        return read_token(o->token_file, ret_config->text, sizeof ret_config->text);
    }
    if (ret_config->token && !is_token(token)) {
        client_error("$DROVER_TOKEN is not a token");
        return false;
    }
    return true;
}

struct client *client_open(const struct client_options *o)
{
    struct client_config config;
    struct transport *t;
    struct err_info e;
    struct client *c;

    if (!client_configure(o, &config))
        return NULL;
    struct transport_options options = {.server = config.server, .token = config.token};
    if (transport_open(&options, &t, &e)) {
        client_error("%s", e.text);
        return NULL;
    }
    c = mem_zalloc(sizeof *c);
    c->transport = t;
    return c;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    transport_close(c->transport);
    arena_release(&c->arena);
    free(c);
}

void client_set_wait(struct client *c, int64_t wait_ms)
{
    c->wait_ms = wait_ms;
}

void client_set_repeatable(struct client *c)
{
    c->repeatable = true;
}

void client_set_stop(struct client *c, int fd)
{
    transport_set_stop(c->transport, fd);
}

void client_set_silent(struct client *c)
{
    c->silent = true;
}

void client_describe(const struct client *c, const struct client_reply *reply,
                     struct err_info *ret_error)
{
    const struct json *errors = reply ? json_get(reply->json, "errors") : NULL,
                      *first = errors ? errors->first : NULL;

    if (!reply)
        *ret_error = c->error;
    else if (first && first->kind == JSON_TEXT)
        err_set(ret_error, 0, "%.*s", STR_ARGS(first->text));
    else
        err_set(ret_error, 0, "%s replied with status %d", client_server(c), reply->status);
}

struct arena *client_arena(struct client *c)
{
    return &c->arena;
}

void client_forget(struct client *c)
{
    arena_reset(&c->arena);
}

const char *client_server(const struct client *c)
{
    return transport_server(c->transport);
}

/* Calls. */

int client_try(struct client *c, const char *method, const char *path, const char *body,
               struct client_reply *ret_reply)
{
    struct str sent = body ? str_of(body) : (struct str){0};
    struct transport_answer answer;
    struct client_reply reply;
    struct err_info e;
    int err, tries = 0;

    do
        err = transport_call(c->transport, method, path, sent, TRANSPORT_TIMEOUT_MS + c->wait_ms,
                             &answer, &c->error);
    while (err == DROVER_UNKNOWN && c->repeatable && ++tries <= REPEATS_MAX);
    if (err == DROVER_CLOSED || (err && c->silent))
        return CMD_FAILURE;
    if (err)
        return client_error("%s", c->error.text);
    reply.status = answer.status;
    reply.body.len = answer.body.len;
    reply.body.p = arena_text(&c->arena, buf_str(&answer.body));
    reply.json = reply.body.len ? json_parse(&c->arena, reply.body, &e) : NULL;
    buf_release(&answer.body);
    *ret_reply = reply;
    return CMD_OK;
}

int client_refused(const struct client *c, const struct client_reply *reply)
{
    const struct json *errors = json_get(reply->json, "errors");
    bool said = false;

    if (errors && errors->kind == JSON_LIST)
        json_each(line, errors)
            if (line->kind == JSON_TEXT) {
                client_error("%.*s", STR_ARGS(line->text));
                said = true;
            }
    if (!said)
        client_error("%s replied with status %d", client_server(c), reply->status);
    return reply->status == 400 ? CMD_USAGE : CMD_FAILURE;
}

int client_call(struct client *c, const char *method, const char *path, const char *body,
                struct client_reply *ret_reply)
{
    struct client_reply reply;
    TRY(client_try(c, method, path, body, &reply));
    if (reply.status < 200 || reply.status > 299)
        return client_refused(c, &reply);
    if (reply.body.len && !reply.json)
        return client_error("%s did not reply with JSON; is it drover serve?", client_server(c));
    *ret_reply = reply;
    return CMD_OK;
}

const char *client_quote(struct client *c, struct str text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    char *quoted = arena_alloc(&c->arena, text.len * 3 + 1), *at = quoted;

    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] && strchr(plain, text.p[i]))
            *at++ = text.p[i];
        else
            at += sprintf(at, "%%%02X", (unsigned char)text.p[i]);
    }
    *at = '\0';
    return quoted;
}

void client_print_json(const struct client_reply *reply)
{
    if (!reply->body.len)
        fputs("{}", stdout);
    fwrite(reply->body.p, 1, reply->body.len, stdout);
    if (!reply->body.len || reply->body.p[reply->body.len - 1] != '\n')
        putchar('\n');
}
