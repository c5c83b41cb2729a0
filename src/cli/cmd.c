/*
 * Parsing, --help and the dispatch to commands. getopt_long would need each table three times
 * (names, help, a switch) and has error messages of its own.
 */
#include "cli/cmd.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/config.h"
#include "cli/term.h"

enum { SUBS_MAX = 64 };

int cmd_usage_error(const struct cmd *c, const char *fmt, ...)
{
    CLEANUP(mem_free) char *text;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        err_fatal("out of memory");
    va_end(ap);
    term_say("drover %s: %s (see 'drover %s --help')", c->name, text, c->name);
    return CMD_USAGE;
}

const char *cmd_word(const struct cmd *c)
{
    const char *space = strrchr(c->name, ' ');
    return space ? space + 1 : c->name;
}

/* Where the client's options go: a process runs one command. */
static struct client_options client;

static const struct option CLIENT_OPTIONS[] = {
    {"server", "URL",
     "Server URLs, comma-separated; any one is enough. Default: $DROVER_URL, else\n"
     "http://127.0.0.1:8048.",
     option_text, &client.server},
    {"token-file", "FILE", "Send the token in the first line of this file. Default: $DROVER_TOKEN.",
     option_text, &client.token_file},
    {"ca", "FILE",
     "For https://: accept a server whose certificate these authorities (PEM) have signed.\n"
     "Default: $DROVER_CA, else those of the system.",
     option_text, &client.tls.ca},
    {"cert", "FILE", "Show this certificate (PEM) to the server. Default: $DROVER_CERT.",
     option_text, &client.tls.cert},
    {"key", "FILE",
     "The key of the certificate (PEM). Default: $DROVER_KEY, else in the file of --cert.",
     option_text, &client.tls.key},
    {"json", NULL, "Print the server's reply, as JSON.", option_flag, &client.json},
};

static bool has_option(const struct option *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(rows[i].name, name))
            return true;
    return false;
}

/* An option of the command hides one for the server: 'drover add --key' is the key of a task. */
size_t cmd_all_options(const struct cmd *c, struct option all[static CMD_OPTIONS_MAX])
{
    static const size_t counts[] = {[CMD_LOCAL] = 0, [CMD_REMOTE] = 5, [CMD_JSON] = 6};
    size_t count = 0;
    for (const struct option *o = c->options; o && o->name; o++)
        all[count++] = *o;
    if (c->more_options)
        count += c->more_options(all + count);
    assert(count + 6 <= CMD_OPTIONS_MAX);
    size_t own = count;
    for (size_t i = 0; i < counts[c->client]; i++)
        if (!has_option(all, own, CLIENT_OPTIONS[i].name))
            all[count++] = CLIENT_OPTIONS[i];
    return count;
}

/*
 * How many operands a command takes. Each word of cmd.operands is one; "[X]" may be left out, and
 * with "..." there may be more.
 */
static void operand_range(const char *words, size_t *ret_min, size_t *ret_max)
{
    *ret_min = *ret_max = 0;
    for (const char *word = words; word && *word;) {
        size_t len = strcspn(word, " ");
        bool dashes = len == 2 && !strncmp(word, "--", 2), optional = *word == '[';
        *ret_min += !dashes && !optional;
        if (memmem(word, len, "...", 3))
            *ret_max = SIZE_MAX / 2;
        else
            *ret_max += !dashes;
        word += len + (word[len] == ' ');
    }
}

/* --help */

/* The default follows the help, in the same line if there is room. */
static void print_initial(const struct option *o, size_t width)
{
    enum { WIDTH_MAX = 84 };
    static const char FRAME[] = "Default: .";
    if (!o->initial)
        return;
    bool fits = width + strlen(FRAME) + strlen(o->initial) + 1 <= WIDTH_MAX;
    printf("%sDefault: %s.", fits ? " " : "\n        ", o->initial);
}

static void print_option(const struct option *o)
{
    const char *line = o->help, *end;
    if (o->letter)
        printf("  -%c, --%s\n", o->letter, o->name);
    else
        printf("  --%s%s%s\n", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    for (; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        printf("        %.*s", (int)(end - line), line);
        if (!*end)
            print_initial(o, (size_t)(end - line));
        putchar('\n');
    }
}

static void print_help(const struct cmd *c)
{
    static const struct option help = {"help", NULL, "Print this and exit."};
    struct option all[CMD_OPTIONS_MAX];
    size_t count = cmd_all_options(c, all);
    printf("Usage: drover %s%s%s%s%s\n\n%s\n\n", c->name, count ? " [OPTION]..." : "",
           c->operands ? " " : "", c->operands ? c->operands : "",
           c->takes_command ? " -- COMMAND [ARGUMENT]..." : "", c->about);
    printf("Options:\n");
    for (size_t i = 0; i < count; i++)
        print_option(&all[i]);
    print_option(&help);
}

/* Parsing. */

/* The option that an argument names, up to its '=' or its end. */
static const struct option *find_option(const struct cmd_parser *p, const char *arg, size_t len)
{
    bool is_long = !strncmp(arg, "--", 2);
    for (size_t i = 0; i < p->option_count; i++) {
        const struct option *o = &p->options[i];
        if (is_long && strlen(o->name) == len - 2 && !memcmp(o->name, arg + 2, len - 2))
            return o;
        if (o->letter && len == 2 && arg[1] == o->letter)
            return o;
    }
    return NULL;
}

static int unknown_option(const struct cmd_parser *p, const char *arg, size_t len)
{
    const char *names[CMD_OPTIONS_MAX], *nearest = NULL;
    char word[64];
    for (size_t i = 0; i < p->option_count; i++)
        names[i] = p->options[i].name;
    if (!strncmp(arg, "--", 2) && len - 2 < sizeof word) {
        snprintf(word, sizeof word, "%.*s", (int)len - 2, arg + 2);
        nearest = cmd_nearest(word, names, p->option_count);
    }
    if (!nearest)
        return cmd_usage_error(p->c, "unknown option '%.*s'", (int)len, arg);
    term_say("drover %s: unknown option '%.*s' (did you mean '--%s'?)", p->c->name, (int)len, arg,
             nearest);
    return CMD_USAGE;
}

void cmd_note_given(struct cmd_parser *p, const struct option *o, const char *text,
                    enum cmd_source source, int line)
{
    struct cmd_value *v = &p->values[o - p->options];
    v->given = text ? text : "";
    v->source = source;
    v->line = line;
    if (option_is_list(o) && v->list_given.count < OPTION_LIST_MAX)
        v->list_given.items[v->list_given.count++] = text;
}

/* Parses the option at argv[*at]; *at moves on if its value is the next argument. */
static int parse_option(struct cmd_parser *p, int argc, char **argv, int *at)
{
    const char *arg = argv[*at];
    size_t len = strcspn(arg, "=");
    const struct option *o = find_option(p, arg, len);
    const char *value = arg[len] ? arg + len + 1 : NULL;
    struct err_info e;
    if (!o)
        return unknown_option(p, arg, len);
    if (!o->argument && value && !p->c->variables)
        return cmd_usage_error(p->c, "option '--%s' takes no value", o->name);
    if (o->argument && !value && *at + 1 < argc)
        value = argv[++*at];
    if (o->argument && !value)
        return cmd_usage_error(p->c, "option '--%s' needs a value: %s", o->name, o->argument);
    if (o->parse(o, value, &e))
        return cmd_usage_error(p->c, "--%s: %s", o->name, e.text);
    cmd_note_given(p, o, value, CMD_LINE, 0);
    return CMD_OK;
}

static int check_operands(const struct cmd_parser *p)
{
    const struct cmd_call *call = &p->call;
    size_t count = (size_t)call->count, min, max;
    operand_range(p->c->operands, &min, &max);
    if (count > max && p->c->takes_command && !call->command)
        return cmd_usage_error(p->c, "unexpected argument '%s': the command stands after '--'",
                               call->operands[max]);
    if (count > max)
        return cmd_usage_error(p->c, "unexpected argument '%s'", call->operands[max]);
    if (count < min)
        return cmd_usage_error(p->c, "missing argument: %s", p->c->operands);
    if (p->c->takes_command && !(call->command && *call->command))
        return cmd_usage_error(p->c, "missing: -- COMMAND [ARGUMENT]...");
    return CMD_OK;
}

static void begin(struct cmd_parser *p, const struct cmd *c, int argc, char **argv)
{
    p->c = p->call.cmd = c;
    p->option_count = p->call.option_count = cmd_all_options(c, p->options);
    for (size_t i = 0; i < p->option_count; i++)
        if (!p->options[i].target)
            p->options[i].target = &p->values[i].text;
    p->call.options = p->options;
    p->call.values = p->values;
    p->call.argc = argc;
    p->call.argv = argv;
}

static int parse(struct cmd_parser *p, int argc, char **argv, bool *ret_help)
{
    bool options = true;

    p->call.operands = argv + 1;
    for (int i = 1; i < argc; i++) {
        if (options && !strcmp(argv[i], "--")) {
            options = false;
            if (p->c->takes_command) {
                p->call.command = argv + i + 1;
                break;
            }
        } else if (options && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            *ret_help = true;
            return CMD_OK;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            TRY(parse_option(p, argc, argv, &i));
        } else {
            p->call.operands[p->call.count++] = argv[i];
        }
    }
    return check_operands(p);
}

/* Below the command line: the environment, the file, the defaults. */
static int parse_rest(struct cmd_parser *p, struct err_info *ret_error)
{
    if (p->c->variables)
        TRY(config_read(p, ret_error));
    for (size_t i = 0; i < p->option_count; i++) {
        const struct option *o = &p->options[i];
        const char *initial = p->values[i].given ? NULL : option_initial(o);
        if (initial)
            TRY(o->parse(o, initial, ret_error));
    }
    return 0;
}

int cmd_parse_again(const struct cmd_call *call, void *(*target)(const struct option *o),
                    struct cmd_parser *p, struct err_info *ret_error)
{
    bool help;
    memset(p, 0, sizeof *p);
    begin(p, call->cmd, call->argc, call->argv);
    for (size_t i = 0; i < p->option_count; i++) {
        void *other = target(&p->options[i]);
        assert(other || p->options[i].parse != option_addresses); /* a value in p is smaller */
        p->options[i].target = other ? other : &p->values[i].text;
    }
    if (parse(p, call->argc, call->argv, &help))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the command line is wrong");
    return parse_rest(p, ret_error);
}

/* Groups of commands. */

/* Before the name of a group; drover itself has none. */
static const char *gap(const struct cmd *group)
{
    return *group->name ? " " : "";
}

static const struct cmd *find_sub(const struct cmd *group, const char *word)
{
    if (!strcmp(word, "-h"))
        word = "--help";
    for (const struct cmd *const *sub = group->subs; *sub; sub++)
        if (!strcmp(word, cmd_word(*sub)) || ((*sub)->flag && !strcmp(word, (*sub)->flag)))
            return *sub;
    return NULL;
}

static int unknown_sub(const struct cmd *group, const char *word)
{
    const char *names[SUBS_MAX];
    size_t count = 0;
    for (const struct cmd *const *sub = group->subs; *sub && count < SUBS_MAX; sub++)
        names[count++] = cmd_word(*sub);
    const char *nearest = word[0] == '-' ? NULL : cmd_nearest(word, names, count);
    const char *kind = word[0] == '-' ? "option" : "command";
    if (nearest)
        term_say("drover%s%s: unknown %s '%s' (did you mean '%s'?)", gap(group), group->name, kind,
                 word, nearest);
    else
        term_say("drover%s%s: unknown %s '%s' (see 'drover help%s%s')", gap(group), group->name,
                 kind, word, gap(group), group->name);
    return CMD_USAGE;
}

static void print_group(const struct cmd *group, FILE *to)
{
    int width = 0;
    for (const struct cmd *const *sub = group->subs; *sub; sub++)
        if ((int)strlen(cmd_word(*sub)) > width)
            width = (int)strlen(cmd_word(*sub));
    fprintf(to, "Usage: drover%s%s COMMAND [ARGUMENT]...\n\n%s\n", gap(group), group->name,
            group->about);
    for (const struct cmd *const *sub = group->subs; *sub; sub++) {
        if ((*sub)->heading || sub == group->subs)
            fprintf(to, "\n%s:\n", (*sub)->heading ? (*sub)->heading : "Commands");
        fprintf(to, "  %-*s  %s\n", width, cmd_word(*sub), (*sub)->summary);
    }
    fprintf(to, "\n'drover help%s%s COMMAND' explains a command.\n", gap(group), group->name);
}

static int run_sub(const struct cmd *group, int argc, char **argv)
{
    if (argc < 2) {
        print_group(group, stderr);
        return CMD_USAGE;
    }
    const struct cmd *sub = find_sub(group, argv[1]);
    if (sub)
        return cmd_run(sub, argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") && strcmp(argv[1], "-h") && strcmp(argv[1], "help"))
        return unknown_sub(group, argv[1]);
    return cmd_help(group, argc - 2, argv + 2);
}

int cmd_run(const struct cmd *c, int argc, char **argv)
{
    struct cmd_parser p = {0};
    struct err_info e;
    bool help = false;
    if (c->subs)
        return run_sub(c, argc, argv);
    begin(&p, c, argc, argv);
    TRY(parse(&p, argc, argv, &help));
    if (help)
        return cmd_help(c, 0, NULL);
    if (parse_rest(&p, &e)) {
        fprintf(stderr, "drover %s: %s\n", c->name, e.text);
        return CMD_USAGE;
    }
    p.call.client = client;
    return c->run(&p.call);
}

int cmd_help(const struct cmd *group, int count, char **words)
{
    const struct cmd *c = group;
    for (int i = 0; i < count && c->subs; i++) {
        const struct cmd *sub = find_sub(c, words[i]);
        if (!sub)
            return unknown_sub(c, words[i]);
        c = sub;
    }
    if (c->subs)
        print_group(c, stdout);
    else
        print_help(c);
    return CMD_OK;
}

/*
 * The Levenshtein distance: how many letters must be inserted, removed or replaced to turn one word
 * into the other. Keeps one row of the matrix; longer words match nothing.
 */
static size_t distance(const char *a, const char *b)
{
    size_t row[32], len = strlen(b);
    if (len >= 32)
        return SIZE_MAX;
    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[len];
}

const char *cmd_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t least = 3; /* two wrong letters are a typo, three are another word */
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, names[i]);
        if (d < least && d < strlen(names[i])) {
            least = d;
            nearest = names[i];
        }
    }
    return nearest;
}
