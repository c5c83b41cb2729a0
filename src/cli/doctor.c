/* drover doctor: the command, and its list for people or as JSON. */
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/place.h"
#include "cli/http_client.h"
#include "cli/term.h"
#include "cli/zk_options.h"

static const struct {
    const char *word;
    enum term_colour colour;
} LEVELS[] = {
    [DOCTOR_OK] = {"ok", TERM_GREEN},
    [DOCTOR_WARNING] = {"warning", TERM_YELLOW},
    [DOCTOR_ERROR] = {"error", TERM_RED},
};

void doctor_say(struct doctor *d, enum doctor_level level, const char *check, const char *advice,
                const char *fmt, ...)
{
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    json_open(&d->findings, '{');
    json_member_text(&d->findings, "level", str_of(LEVELS[level].word));
    json_member_text(&d->findings, "check", str_of(check));
    json_member_text(&d->findings, "message", str_of(message));
    json_member_text(&d->findings, "advice", str_of(advice ? advice : ""));
    json_close(&d->findings, '}');
    d->worst = level > d->worst ? level : d->worst;
}

static enum term_colour colour_of(struct str word)
{
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++)
        if (str_eq(word, str_of(LEVELS[i].word)))
            return LEVELS[i].colour;
    return TERM_PLAIN;
}

/* What to do follows in a line of its own. */
static void print_findings(const struct json *list)
{
    bool coloured = term_has_colour(stdout);
    json_each(finding, list) {
        CLEANUP(buf_release) struct buf b = {0};
        struct str level = json_text_of(finding, "level"), advice = json_text_of(finding, "advice");
        struct str check = json_text_of(finding, "check");
        term_paint(&b, coloured, colour_of(level), level, SIZE_MAX);
        buf_printf(&b, "%*s%.*s: ", (int)(9 - level.len), "", STR_ARGS(check));
        term_put_safe(&b, json_text_of(finding, "message"), SIZE_MAX);
        if (advice.len) {
            buf_printf(&b, "\n         ");
            term_paint(&b, coloured, TERM_DIM, advice, SIZE_MAX);
        }
        puts(buf_text(&b));
    }
}

static const char *data, *keeper, *cert, *key;
static struct zookeeper_tls zk_tls;

static int run_doctor(const struct cmd_call *call)
{
    static void (*const checks[])(struct doctor * d) = {doctor_check_server, doctor_check_data,
                                                        doctor_check_disk,   doctor_check_machine,
                                                        doctor_check_tls,    doctor_check_keeper};
    if (!cert != !key)
        return cmd_usage_error(call->cmd, "--tls-cert and --tls-key go together");
    if (!keeper && zk_option_given(NULL, &zk_tls))
        return cmd_usage_error(call->cmd, "--%s goes with --keeper",
                               zk_option_given(NULL, &zk_tls));
    CLEANUP(buf_release) struct buf place = {0};
    CLEANUP(arena_release) struct arena arena = {0};
    place_data(&place);
    struct doctor d = {.data = data ? data : buf_text(&place),
                       .data_given = data,
                       .keeper = keeper,
                       .zk_tls = zk_tls,
                       .cert = cert,
                       .key = key,
                       .client = call->client};
    json_open(&d.findings, '{');
    json_member_open(&d.findings, "findings", '[');
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        checks[i](&d);
    json_close(&d.findings, ']');
    json_close(&d.findings, '}');
    if (call->client.json)
        term_line(stdout, buf_str(&d.findings), ESCAPE_JSON);
    else
        print_findings(json_get(json_parse(&arena, buf_str(&d.findings), NULL), "findings"));
    buf_release(&d.findings);
    return d.worst == DOCTOR_OK ? CMD_OK : CMD_FAILURE;
}

const struct cmd cmd_doctor = CMD_INIT(
    "doctor", "look for what is wrong", NULL,
    "Looks for what is wrong with this machine and the server on it, and says what to do:\n"
    "whether the server answers, its version and rights; the data directory, its disk and\n"
    "how long a sync takes; the clock; limits. Changes nothing. Exit status 1: there are\n"
    "warnings or errors.",
    CMD_OPTIONS(
        {"data", "DIR", "The data directory. Default: that of 'drover serve'.", option_text, &data},
        {"tls-cert", "FILE", "Check this certificate of a server, too; with --tls-key.",
         option_text, &cert},
        {"tls-key", "FILE", "Its key.", option_text, &key},
        {"keeper", "URL",
         "Ask the servers of this ensemble, too: zk://HOST:PORT,..., or zks:// with TLS.",
         option_text, &keeper},
        ZK_TLS_OPTIONS(zk_tls, .flags = 0)),
    CMD_JSON, run_doctor);
