#include "server/announce.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/policy.h"
#include "base/secret.h"
#include "server/audit.h"

static const char *const JOURNAL_NAMES[] = {
    [LOCAL_STRICT] = "strict",
    [LOCAL_OPPORTUNISTIC] = "opportunistic",
    [LOCAL_NONE] = "none",
};

static void say_what_is_kept(const struct serve_options *o, const struct context *h)
{
    struct local_stats stats;
    if (o->keeper) {
        log_event(LOG_LEVEL_INFO, LOG_FIELDS("keeper", LOG_TEXT_OF("url", o->keeper)), "keeper %s",
                  o->keeper);
        return;
    }
    local_stats(h->local, &stats);
    if (o->journal == LOCAL_NONE)
        log_info("data directory none: all data is lost when this process ends");
    else
        log_event(LOG_LEVEL_INFO, LOG_FIELDS("data", LOG_TEXT_OF("path", o->data)),
                  "data directory %s", o->data);
    const char *journal = JOURNAL_NAMES[o->journal];
    log_event(LOG_LEVEL_INFO, LOG_FIELDS("journal", LOG_TEXT_OF("mode", journal)), "journal %s",
              journal);
    log_event(LOG_LEVEL_INFO,
              LOG_FIELDS("recovered", LOG_NUMBER("nodes", (int64_t)stats.recovered_nodes),
                         LOG_NUMBER("records", (int64_t)stats.recovered_records)),
              "recovered %" PRIu64 " nodes, %" PRIu64 " journal records", stats.recovered_nodes,
              stats.recovered_records);
}

void announce_exposed_secrets(const struct serve_options *o)
{
    const char *zk_key = o->zk_tls.key ? o->zk_tls.key : o->zk_tls.cert;
    const char *const files[] = {o->token_file, o->zk_auth, o->wire.super_file, zk_key};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] && secret_is_exposed(files[i]))
            log_event(LOG_LEVEL_WARNING, LOG_FIELDS("exposed", LOG_TEXT_OF("path", files[i])),
                      "every user of this machine can read %s: chmod o-r", files[i]);
}

static void warn_of_open_doors(const struct serve_options *o)
{
    if (o->loopback_roles & (ROLE_RUN | ROLE_ADMIN))
        log_warning(
            "--loopback-roles: every user of this machine can have commands run as this user");
}

static void say_address(const char *scheme, const char *address)
{
    char url[256];
    snprintf(url, sizeof url, "%s%s", scheme, address);
    log_event(LOG_LEVEL_INFO, LOG_FIELDS("listening", LOG_TEXT_OF("url", url)), "listening on %s",
              url);
}

void announce_start(const struct serve_options *o, const struct context *h)
{
    log_event(
        LOG_LEVEL_INFO,
        LOG_FIELDS("start", LOG_TEXT_OF("version", DROVER_VERSION), LOG_NUMBER("pid", getpid())),
        "version %s", DROVER_VERSION);
    say_what_is_kept(o, h);
    announce_exposed_secrets(o);
    if (h->policy && policy_runs_as_root(h->policy))
        log_warning(POLICY_AS_ROOT);
    warn_of_open_doors(o);
    for (size_t i = 0; h->http && http_url(h->http, i); i++)
        say_address("", http_url(h->http, i));
    for (size_t i = 0; h->wire && wire_address(h->wire, i); i++)
        say_address(wire_is_tls(h->wire, i) ? "zks://" : "zk://", wire_address(h->wire, i));
}

int announce_to_audit(const struct serve_options *o, const struct context *h,
                      struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf members = {0}, roles = {0};
    json_member_text(&members, "version", STR(DROVER_VERSION));
    json_member_int(&members, "pid", getpid());
    json_member_int(&members, "uid", geteuid());
    roles_put(&roles, o->loopback_roles);
    json_member_text(&members, "loopback_roles", buf_str(&roles));
    json_member_text(&members, "token_file", str_of(o->token_file ? o->token_file : ""));
    json_member_text(&members, "zk_super", str_of(o->wire.super_file ? o->wire.super_file : ""));
    json_member_bool(&members, "zk_skip_acl", o->wire.skip_acl);
    json_member_int(&members, "socket_mode", o->socket_mode);
    json_member_open(&members, "listening", '[');
    for (size_t i = 0; h->http && http_url(h->http, i); i++)
        json_put_text(&members, str_of(http_url(h->http, i)));
    for (size_t i = 0; h->wire && wire_address(h->wire, i); i++)
        json_put_text(&members, str_of(wire_address(h->wire, i)));
    json_close(&members, ']');
    int err = audit_note(h->audit, &(struct audit_event){.who = "server",
                                                         .from = "",
                                                         .action = "start",
                                                         .members = buf_str(&members)});
    return err ? err_set(ret_error, err, "cannot write the audit log %s", o->audit) : 0;
}
