/*
 * drover config - prints the options of `drover serve` that are in force, and where they come from.
 *
 * The output is itself a configuration file that gives the same values. Options that have no value
 * stand there as comments. So do values with a secret, which is not printed, and those that a file
 * cannot have: with line ends, or with what would be a comment.
 *
 * --template prints a file to begin with instead: every option with its help and its default, as
 * comments. It depends on neither the machine nor the environment, so a package can have it.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/config.h"
#include "cli/serve.h"
#include "cli/term.h"

static bool as_json, as_template;

/* An option with one of its values, as it is shown. */
struct shown_option {
    const struct option *option;
    const struct cmd_value *value;
    const char *text;   /* NULL: none */
    const char *origin; /* for a comment */
    bool secret;
};

static const char *const SOURCES[] = {
    [CMD_DEFAULT] = "default",
    [CMD_FILE] = "file",
    [CMD_ENVIRONMENT] = "environment",
    [CMD_LINE] = "command line",
};

/* http://user:password@host: a password, where a value has one; len 0: it has none. */
static struct str find_secret(const char *text)
{
    const char *begin = strstr(text, "://");
    if (!begin)
        return (struct str){0};
    begin += 3;
    size_t len = strcspn(begin, "/?# ");
    const char *at = memrchr(begin, '@', len);
    return (struct str){begin, at ? (size_t)(at - begin) : 0};
}

static void put_text(struct buf *b, const struct shown_option *s)
{
    struct str secret = find_secret(s->text);
    if (!secret.len) {
        buf_put_str(b, str_of(s->text));
        return;
    }
    buf_put(b, s->text, (size_t)(secret.p - s->text));
    buf_printf(b, "***%s", secret.p + secret.len);
}

/* Whether a file can have the value, as it is printed. */
static bool fits_file(const struct shown_option *s)
{
    const char *text = s->text;
    if (!text || s->secret || find_secret(text).len || strstr(text, " #") || strstr(text, "\t#"))
        return false;
    for (const char *at = text; *at; at++)
        if (iscntrl((unsigned char)*at) && *at != '\t')
            return false;
    size_t len = strlen(text);
    return len && *text != '#' && !isspace((unsigned char)*text) &&
           !isspace((unsigned char)text[len - 1]);
}

/* One line of the file. */
static void put_line(struct buf *b, const struct shown_option *s, int width)
{
    enum { VALUE_WIDTH = 24 };
    bool commented = !fits_file(s);
    CLEANUP(buf_release) struct buf value = {0};
    if (s->secret)
        buf_printf(&value, "***");
    else if (s->text)
        put_text(&value, s);
    buf_printf(b, "%s%-*s ", commented ? "#" : "", commented ? width - 1 : width, s->option->name);
    size_t before = b->len;
    if (commented)
        term_put_safe(b, buf_str(&value), SIZE_MAX);
    else
        buf_put_str(b, buf_str(&value));
    for (size_t len = b->len - before; len < VALUE_WIDTH; len++)
        buf_put_str(b, STR(" "));
    buf_printf(b, " # %s\n", s->origin);
}

static void put_member(struct buf *b, const struct shown_option *s)
{
    CLEANUP(buf_release) struct buf text = {0};
    if (!s->text || s->secret)
        json_put_null(b);
    else if (option_is_flag(s->option))
        json_put_bool(b, !strcmp(s->text, "yes"));
    else {
        put_text(&text, s);
        json_put_text(b, buf_str(&text));
    }
}

static const char *origin_of(char *out, const struct cmd_call *call, size_t i, bool is_set)
{
    const struct option *o = &call->options[i];
    const struct cmd_value *v = &call->values[i];
    char variable[CONFIG_ORIGIN_SIZE];
    if (v->source == CMD_FILE)
        snprintf(out, CONFIG_ORIGIN_SIZE, "%s:%d", call->file, v->line);
    else if (v->source == CMD_ENVIRONMENT)
        snprintf(out, CONFIG_ORIGIN_SIZE, "$%s", config_variable(variable, call->cmd, o));
    else
        snprintf(out, CONFIG_ORIGIN_SIZE, "%s", is_set ? SOURCES[v->source] : "not set");
    return out;
}

static bool is_shown(const struct cmd_call *call, const struct serve_options *o, size_t i)
{
    const struct option *option = &call->options[i];
    return !(option->flags & (OPTION_COMMAND_LINE | OPTION_VARIABLE)) && serve_applies(o, option);
}

/* The variable that has the secret itself, if it is what counts. */
static bool has_secret(const struct cmd_call *call, size_t i)
{
    const char *variable = call->options[i].secret;
    return variable && !call->values[i].given && getenv(variable);
}

static void put_lines(struct buf *b, const struct cmd_call *call, size_t i, int width)
{
    const char *texts[OPTION_LIST_MAX] = {NULL};
    char origin[CONFIG_ORIGIN_SIZE];
    size_t count = config_texts(&call->options[i], &call->values[i], texts);
    struct shown_option s = {&call->options[i], &call->values[i], .secret = has_secret(call, i)};
    s.origin = origin_of(origin, call, i, count);
    if (s.secret)
        snprintf(origin, sizeof origin, "$%s", s.option->secret);
    for (size_t j = 0; j < count || j == 0; j++) {
        s.text = texts[j];
        put_line(b, &s, width);
    }
}

static void put_source(struct buf *b, const struct cmd_call *call, size_t i)
{
    const struct option *o = &call->options[i];
    const struct cmd_value *v = &call->values[i];
    char variable[CONFIG_ORIGIN_SIZE];
    bool secret = has_secret(call, i);
    json_member_text(b, "from", str_of(SOURCES[secret ? CMD_ENVIRONMENT : v->source]));
    if (v->source == CMD_FILE) {
        json_member_text(b, "file", str_of(call->file));
        json_member_int(b, "line", v->line);
    }
    if (v->source == CMD_ENVIRONMENT || secret)
        json_member_text(b, "variable",
                         str_of(secret ? o->secret : config_variable(variable, call->cmd, o)));
    json_member_bool(b, "reloads", o->flags & OPTION_RELOADS);
}

static void put_object(struct buf *b, const struct cmd_call *call, size_t i)
{
    const char *texts[OPTION_LIST_MAX] = {NULL};
    struct shown_option s = {&call->options[i], &call->values[i], .secret = has_secret(call, i)};
    size_t count = config_texts(&call->options[i], &call->values[i], texts);
    json_open(b, '{');
    json_member_text(b, "name", str_of(s.option->name));
    json_key(b, "value");
    if (option_is_list(s.option)) {
        json_open(b, '[');
        for (size_t j = 0; j < count; j++) {
            s.text = texts[j];
            put_member(b, &s);
        }
        json_close(b, ']');
    } else {
        s.text = texts[0];
        put_member(b, &s);
    }
    put_source(b, call, i);
    json_close(b, '}');
}

static void print_json(const struct cmd_call *call, const struct serve_options *o)
{
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "file", call->file ? str_of(call->file) : (struct str){0});
    json_member_open(&b, "options", '[');
    for (size_t i = 0; i < call->option_count; i++)
        if (is_shown(call, o, i))
            put_object(&b, call, i);
    json_close(&b, ']');
    json_close(&b, '}');
    puts(buf_text(&b));
}

static void print_lines(const struct cmd_call *call, const struct serve_options *o)
{
    CLEANUP(buf_release) struct buf b = {0};
    int width = 0;
    for (size_t i = 0; i < call->option_count; i++)
        if (is_shown(call, o, i) && (int)strlen(call->options[i].name) > width)
            width = (int)strlen(call->options[i].name);
    for (size_t i = 0; i < call->option_count; i++)
        if (is_shown(call, o, i))
            put_lines(&b, call, i, width + 1);
    fputs(buf_text(&b), stdout);
}

static void print_template(const struct cmd_call *call)
{
    CLEANUP(buf_release) struct buf b = {0};
    buf_printf(&b, "# The options of drover serve, with their defaults: drover.conf(5).\n"
                   "# Remove the # in front of a name to set its option.\n");
    for (size_t i = 0; i < call->option_count; i++) {
        const struct option *o = &call->options[i];
        struct str help = str_of(o->help);
        if (o->flags & (OPTION_COMMAND_LINE | OPTION_VARIABLE))
            continue;
        buf_put_str(&b, STR("\n"));
        while (help.p) {
            struct str line = str_cut(&help, '\n');
            buf_printf(&b, "# %.*s\n", STR_ARGS(line));
        }
        const char *value = o->initial ? o->initial : o->argument;
        buf_printf(&b, "#%s%s%s\n", o->name, value ? " " : "", value ? value : "");
    }
    fputs(buf_text(&b), stdout);
}

static int run_config(const struct cmd_call *call)
{
    struct serve_options *o;
    if (as_template) {
        print_template(call);
        return CMD_OK;
    }
    TRY(serve_check(call, &o));
    (as_json ? print_json : print_lines)(call, o);
    return CMD_OK;
}

static size_t more_options(struct option *to)
{
    static const struct option own[] = {
        {"json", NULL, "Print them as JSON.", option_flag, &as_json, .flags = OPTION_COMMAND_LINE},
        {"template", NULL, "Print a file with every option and its default, as comments.",
         option_flag, &as_template, .flags = OPTION_COMMAND_LINE},
    };
    size_t count = serve_more_options(to);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        to[count++] = own[i];
    return count;
}

const struct cmd cmd_config = CMD_INIT(
    "config", "print the options in force", NULL,
    "Prints the options with which 'drover serve' would start if it were given the same\n"
    "ones, and where each comes from: the command line, the environment, the file, or its\n"
    "default. Starts nothing and changes nothing. The output is a configuration file.",
    SERVE_OPTIONS, CMD_LOCAL, run_config, .more_options = more_options,
    .variables = SERVE_VARIABLES);
