/*
 * The transport with options and environment as input, messages on stderr and exit statuses as
 * output.
 */
#include "cli/http_client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/term.h"

enum { REPEATS_MAX = 3 };

int client_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    term_vsay("drover: ", fmt, ap);
    va_end(ap);
    return CMD_FAILURE;
}

/* Files. */

int client_read_file(const char *name, size_t len_max, struct buf *b)
{
    bool is_stdin = !strcmp(name, "-");
    FILE *in = is_stdin ? stdin : fopen(name, "re");
    size_t got = in ? 1 : 0;
    while (got && b->len <= len_max) {
        buf_reserve(b, 65536);
        got = fread(b->p + b->len, 1, 65536, in);
        b->len += got;
    }
    int errnum = in && !ferror(in) ? 0 : errno;
    if (in && !is_stdin)
        fclose(in);
    if (!errnum && b->len <= len_max)
        return CMD_OK;
    return client_error("%s: %s", is_stdin ? "standard input" : name,
                        errnum ? strerror(errnum) : "too large");
}

int client_first_line(const char *file, char *text, size_t size)
{
    FILE *in = fopen(file, "re");
    if (!in)
        return errno;
    if (!fgets(text, (int)size, in))
        text[0] = '\0';
    fclose(in);
    text[strcspn(text, "\r\n")] = '\0';
    return 0;
}

/* Open and close. */

/* A token goes into a header: printable, no spaces. */
static bool is_token(const char *text)
{
    size_t len = 0;
    while (text[len] > ' ' && text[len] <= '~')
        len++;
    return len && !text[len];
}

int client_configure(const struct client_options *o, struct client_config *ret_config)
{
    const char *url = getenv("DROVER_URL"), *token = getenv("DROVER_TOKEN");
    ret_config->server = o->server ? o->server : url && *url ? url : NULL;
    ret_config->token = token && *token ? token : NULL;
    ret_config->tls = o->tls;
    if (o->token_file) {
        int errnum = client_first_line(o->token_file, ret_config->text, sizeof ret_config->text);
        if (errnum)
            return client_error("--token-file: %s: %s", o->token_file, strerror(errnum));
        if (!is_token(ret_config->text))
            return client_error("--token-file: %s: the first line is not a token", o->token_file);
        ret_config->token = ret_config->text;
    } else if (ret_config->token && !is_token(token)) {
        return client_error("$DROVER_TOKEN is not a token");
    }
    return CMD_OK;
}

int client_connect(struct client *c, const struct client_config *config)
{
    if (transport_open(config->server, config->token, &config->tls, &c->transport, &c->error))
        return client_error("%s", c->error.text);
    return CMD_OK;
}

int client_open(struct client *c, const struct client_options *o)
{
    struct client_config config;
    TRY(client_configure(o, &config));
    return client_connect(c, &config);
}

void client_close(struct client *c)
{
    if (c->transport)
        transport_close(c->transport);
    arena_release(&c->arena);
}

/* Calls. */

static int send_request(struct client *c, struct client_reply *ret_reply, struct str sent,
                        char *method)
{
    char *path = strchr(method, ' ');
    struct transport_answer answer;
    struct err_info e;
    int tries = 0;
    *path++ = '\0';
    do
        c->err = transport_call(c->transport, method, path, sent, TRANSPORT_TIMEOUT_MS + c->wait_ms,
                                &answer, &c->error);
    while (c->err == DROVER_UNKNOWN && c->repeatable && ++tries <= REPEATS_MAX);
    if (c->err == DROVER_CLOSED || (c->err && c->silent))
        return CMD_FAILURE;
    if (c->err)
        return client_error("%s", c->error.text);
    ret_reply->status = answer.status;
    ret_reply->body = arena_take(&c->arena, &answer.body);
    ret_reply->json = ret_reply->body.len ? json_parse(&c->arena, ret_reply->body, &e) : NULL;
    return CMD_OK;
}

int client_try(struct client *c, struct client_reply *ret_reply, const char *body,
               const char *request, ...)
{
    va_list ap;
    va_start(ap, request);
    char *text = arena_vprintf(&c->arena, request, ap);
    va_end(ap);
    return send_request(c, ret_reply, body ? str_of(body) : (struct str){0}, text);
}

int client_send(struct client *c, struct client_reply *ret_reply, struct str bytes,
                const char *request, ...)
{
    va_list ap;
    va_start(ap, request);
    char *text = arena_vprintf(&c->arena, request, ap);
    va_end(ap);
    transport_set_bytes(c->transport, true);
    int status = send_request(c, ret_reply, bytes, text);
    transport_set_bytes(c->transport, false);
    return status;
}

int client_call(struct client *c, struct client_reply *ret_reply, const char *body,
                const char *request, ...)
{
    va_list ap;
    va_start(ap, request);
    const char *text = arena_vprintf(&c->arena, request, ap);
    va_end(ap);
    TRY(client_try(c, ret_reply, body, "%s", text));
    if (ret_reply->status < 200 || ret_reply->status > 299)
        return client_refused(c, ret_reply);
    if (ret_reply->body.len && !ret_reply->json)
        return client_error("%s did not reply with JSON; is it drover serve?",
                            transport_server(c->transport));
    return CMD_OK;
}

int client_refused(const struct client *c, const struct client_reply *reply)
{
    bool said = false;
    json_each(line, json_list(c->silent ? NULL : json_get(reply->json, "errors")))
        if (line->kind == JSON_TEXT) {
            client_error("%.*s", STR_ARGS(line->text));
            said = true;
        }
    if (!said && !c->silent)
        client_error("%s replied with status %d", transport_server(c->transport), reply->status);
    return reply->status == 400 ? CMD_USAGE : CMD_FAILURE;
}

void client_describe(const struct client *c, const struct client_reply *reply,
                     struct err_info *ret_error)
{
    const struct json *errors = c->err ? NULL : json_get(reply->json, "errors"),
                      *first = errors && errors->kind == JSON_LIST ? errors->first : NULL;
    if (c->err)
        *ret_error = c->error;
    else if (first && first->kind == JSON_TEXT)
        err_set(ret_error, 0, "%.*s", STR_ARGS(first->text));
    else
        err_set(ret_error, 0, "%s replied with status %d", transport_server(c->transport),
                reply->status);
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
    struct str body = reply->body.len ? reply->body : STR("{}");
    if (body.p[body.len - 1] == '\n')
        body.len--;
    term_line(stdout, body, ESCAPE_JSON);
}
