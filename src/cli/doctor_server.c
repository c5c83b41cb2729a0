/* The server: whether it answers, as what, with which version, and who may do what there. */
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/identity.h"
#include "base/place.h"
#include "base/secret.h"
#include "cli/doctor.h"
#include "cli/http_client.h"
#include "drover.h"

enum { DRIFT_MAX_MS = 2000 };

/* NULL: it was not answered with 200. The reply is in the arena. */
static const struct json *get(struct client *c, const char *path, int64_t *ret_date_ms)
{
    struct transport_answer answer;
    c->err = transport_call(c->transport, "GET", path, (struct str){0}, 0, &answer, &c->error);
    if (c->err)
        return NULL;
    if (ret_date_ms)
        *ret_date_ms = answer.date_ms;
    const struct json *reply = json_parse(&c->arena, arena_take(&c->arena, &answer.body), NULL);
    if (answer.status == 200 && reply)
        return reply;
    const struct json *why = json_get(reply, "errors");
    struct str text = why && why->first ? why->first->text : STR("an answer that is no JSON");
    err_set(&c->error, DROVER_IO, "status %d: %.*s", answer.status, STR_ARGS(text));
    return NULL;
}

static void check_version(struct doctor *d, struct client *c)
{
    const struct json *document = get(c, "/v1/openapi.json", NULL);
    struct str version = json_text_of(json_get(document, "info"), "version");
    if (!document)
        doctor_say(d, DOCTOR_WARNING, "version", NULL, "not known: %s", c->error.text);
    else if (str_eq(version, STR(DROVER_VERSION)))
        doctor_say(d, DOCTOR_OK, "version", NULL, "%.*s, as this command", STR_ARGS(version));
    else
        doctor_say(d, DOCTOR_WARNING, "version",
                   "restart the server after an upgrade, or use the command of its version",
                   "the server is %.*s, this command " DROVER_VERSION, STR_ARGS(version));
}

/* Date has whole seconds. */
static void check_date(struct doctor *d, int64_t date_ms)
{
    char span[HUMAN_SIZE];
    int64_t now_ms = clock_wall_ms(), off_ms = date_ms ? date_ms - now_ms : 0;
    if (!date_ms)
        doctor_say(d, DOCTOR_WARNING, "server clock", NULL, "the server sends no Date");
    else if (off_ms < -DRIFT_MAX_MS || off_ms > DRIFT_MAX_MS)
        doctor_say(
            d, DOCTOR_WARNING, "server clock",
            "synchronise both clocks (NTP): times of tasks and ends of tokens depend on them",
            "the clock of the server is %s %s", human_span(span, llabs(off_ms)),
            off_ms > 0 ? "ahead" : "behind");
    else
        doctor_say(d, DOCTOR_OK, "server clock", NULL, "within 2s of this machine's");
}

static void check_rights(struct doctor *d, struct client *c)
{
    const struct json *who = get(c, "/v1/identity", NULL);
    unsigned roles = 0, one;
    if (!who) {
        doctor_say(d, DOCTOR_WARNING, "rights", "see 'drover whoami'", "%s", c->error.text);
        return;
    }
    json_each(role, json_list(json_get(who, "roles")))
        if (!roles_parse(role->text, &one, NULL))
            roles |= one;
    struct str name = json_text_of(who, "name");
    bool open = str_eq(name, STR("loopback")) && roles & (ROLE_RUN | ROLE_ADMIN);
    CLEANUP(buf_release) struct buf list = {0};
    roles_put(&list, roles);
    if (open)
        doctor_say(d, DOCTOR_WARNING, "rights", "start the server without --loopback-roles",
                   "every user of this machine may have commands run: without a token one has %s",
                   buf_text(&list));
    else
        doctor_say(d, DOCTOR_OK, "rights", NULL, "you are %.*s and have %s", STR_ARGS(name),
                   buf_text(&list));
}

/* Who listens where this command would send its token. */
static void check_port(struct doctor *d, const char *server)
{
    const char *colon = strrchr(server, ':');
    int64_t port = 0;
    uid_t user;
    if (!strncmp(server, "unix:", 5) || !colon || !option_digits(colon + 1, 1, 65535, &port) ||
        !place_port_user((uint16_t)port, &user))
        return;
    const struct passwd *entry = getpwuid(user);
    const char *name = entry ? entry->pw_name : "somebody else";
    if (user != geteuid() && user != 0)
        doctor_say(d, DOCTOR_WARNING, "port",
                   "if that is not your server: it can read what you send; use the Unix socket",
                   "%s (%u) listens on port %" PRId64, name, (unsigned)user, port);
    else
        doctor_say(d, DOCTOR_OK, "port", NULL, "%s listens on port %" PRId64, name, port);
}

static void check_token_file(struct doctor *d, const char *file)
{
    if (file && secret_is_exposed(file))
        doctor_say(d, DOCTOR_ERROR, "token file", "chmod 600, and revoke the token",
                   "every user of this machine can read %s", file);
    else if (file)
        doctor_say(d, DOCTOR_OK, "token file", NULL, "not every user can read %s", file);
}

void doctor_check_server(struct doctor *d)
{
    CLEANUP(client_close) struct client c = {.silent = true};
    int64_t date_ms = 0;
    check_token_file(d, d->client.token_file);
    if (client_open(&c, &d->client)) {
        doctor_say(d, DOCTOR_ERROR, "server", "see the line above", "it cannot be asked");
        return;
    }
    const struct json *alive = get(&c, "/healthz", &date_ms);
    check_port(d, transport_server(c.transport));
    if (!alive) {
        doctor_say(d, DOCTOR_ERROR, "server", "start it: drover serve; or name it: --server URL",
                   "%s", c.error.text);
        return;
    }
    if (get(&c, "/readyz", NULL))
        doctor_say(d, DOCTOR_OK, "server", NULL, "%s is ready", transport_server(c.transport));
    else
        doctor_say(d, DOCTOR_ERROR, "server", "see the log of the server", "%s answers: %s",
                   transport_server(c.transport), c.error.text);
    check_version(d, &c);
    check_date(d, date_ms);
    check_rights(d, &c);
}
