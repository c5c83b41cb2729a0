/*
 * Parsing, --help and the dispatch to subcommands. getopt_long would need each table three times
 * (names, help, a switch) and has error messages of its own.
 */
#include "cli/cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CMD_SUBS_MAX = 64, CMD_OPTIONS_MAX = 64, CMD_HELP_WORDS_MAX = 8 };

/* While cmd_describe() is at work. The command line is read by one thread. */
static struct {
    cmd_see *see;
    void *arg;
    const char *summary;
} describing;

int cmd_usage_error(const struct cmd *c, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "drover %s: ", c->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (see 'drover %s --help')\n", c->name);
    return CMD_USAGE;
}

/* --help */

static void print_option(const char *name, const char *argument, const char *help)
{
    const char *line = help, *end;

    printf("  --%s%s%s\n", name, argument ? " " : "", argument ? argument : "");
    for (; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        printf("        %.*s\n", (int)(end - line), line);
    }
}

static void print_help(const struct cmd *c)
{
    printf("Usage: drover %s%s%s%s%s\n\n%s\n\n", c->name, c->option_count ? " [OPTION]..." : "",
           c->operands ? " " : "", c->operands ? c->operands : "",
           c->command ? " -- COMMAND [ARGUMENT]..." : "", c->about);
    printf("Options:\n");
    for (size_t i = 0; i < c->option_count; i++)
        print_option(c->options[i].name, c->options[i].argument, c->options[i].help);
    print_option("help", NULL, "Print this and exit.");
}

/* Parsing. */

/* The option that an argument names: up to its '=' or its end. */
static const struct option *find_option(const struct cmd *c, const char *arg, size_t len)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (strlen(c->options[i].name) == len && !memcmp(c->options[i].name, arg, len))
            return &c->options[i];
    return NULL;
}

static void unknown_option(const struct cmd *c, const char *arg, size_t len)
{
    const char *names[CMD_OPTIONS_MAX], *nearest = NULL;
    size_t count = c->option_count < CMD_OPTIONS_MAX ? c->option_count : CMD_OPTIONS_MAX;
    char word[64];

    for (size_t i = 0; i < count; i++)
        names[i] = c->options[i].name;
    snprintf(word, sizeof word, "%.*s", len > 2 ? (int)len - 2 : 0, arg + (len > 2 ? 2 : 0));
    if (!strncmp(arg, "--", 2) && len - 2 < sizeof word)
        nearest = cmd_nearest(word, names, count);
    if (nearest)
        fprintf(stderr, "drover %s: unknown option '%.*s' (did you mean '--%s'?)\n", c->name,
                (int)len, arg, nearest);
    else
        cmd_usage_error(c, "unknown option '%.*s'", (int)len, arg);
}

/* Parses the option at argv[at]. Returns how many arguments it took, 0 when it is wrong. */
static int parse_option(const struct cmd *c, int argc, char **argv, int at)
{
    bool is_long = !strncmp(argv[at], "--", 2);
    size_t len = strcspn(argv[at], "=");
    const struct option *o = is_long ? find_option(c, argv[at] + 2, len - 2) : NULL;
    const char *value = argv[at][len] ? argv[at] + len + 1 : NULL;
    struct err_info e;
    int used = 1;

    if (!o) {
        unknown_option(c, argv[at], len);
        return 0;
    }
    if (!o->argument && value) {
        cmd_usage_error(c, "option '--%s' takes no value", o->name);
        return 0;
    }
    if (o->argument && !value && at + 1 < argc) {
        value = argv[at + 1];
        used = 2;
    }
    if (o->argument && !value) {
        cmd_usage_error(c, "option '--%s' needs a value: %s", o->name, o->argument);
        return 0;
    }
    if (o->parse(o, value, &e)) {
        cmd_usage_error(c, "--%s: %s", o->name, e.text);
        return 0;
    }
    return used;
}

static bool check_operands(const struct cmd *c, int argc, char **argv)
{
    size_t count = (size_t)argc - 1;

    if (count > c->operands_max && c->command && !*c->command)
        cmd_usage_error(c, "unexpected argument '%s': the command stands after '--'",
                        argv[c->operands_max + 1]);
    else if (count > c->operands_max)
        cmd_usage_error(c, "unexpected argument '%s'", argv[c->operands_max + 1]);
    else if (count < c->operands_min)
        cmd_usage_error(c, "missing argument: %s", c->operands);
    else if (c->command && !(*c->command && **c->command))
        cmd_usage_error(c, "missing: -- COMMAND [ARGUMENT]...");
    else
        return true;
    return false;
}

bool cmd_parse(const struct cmd *c, int *argc, char **argv, int *ret_status)
{
    bool options = true;
    int kept = 1, used;

    if (describing.see) {
        describing.see(describing.arg, c, describing.summary);
        *ret_status = CMD_OK;
        return false;
    }
    for (int i = 1; i < *argc; i += used) {
        used = 1;
        if (options && !strcmp(argv[i], "--")) {
            options = false;
            if (c->command) {
                *c->command = argv + i + 1;
                break;
            }
        } else if (options && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            print_help(c);
            *ret_status = CMD_OK;
            return false;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            used = parse_option(c, *argc, argv, i);
            if (!used) {
                *ret_status = CMD_USAGE;
                return false;
            }
        } else {
            argv[kept++] = argv[i];
        }
    }
    *argc = kept;
    *ret_status = CMD_USAGE;
    return check_operands(c, kept, argv);
}

/* Groups of commands. */

static const struct cmd_sub *find_sub(const struct cmd_group *g, const char *word)
{
    if (!strcmp(word, "-h"))
        word = "--help";
    for (size_t i = 0; i < g->sub_count; i++)
        if (!strcmp(word, g->subs[i].name) ||
            (g->subs[i].option && !strcmp(word, g->subs[i].option)))
            return &g->subs[i];
    return NULL;
}

/* "drover world" or "drover", for messages. */
static const char *group_space(const struct cmd_group *g)
{
    return g->name ? " " : "";
}

static const char *group_name(const struct cmd_group *g)
{
    return g->name ? g->name : "";
}

static int unknown_sub(const struct cmd_group *g, const char *word)
{
    const char *names[CMD_SUBS_MAX], *nearest;
    size_t count = 0;

    fprintf(stderr, "drover%s%s: unknown %s '%s'", group_space(g), group_name(g),
            word[0] == '-' ? "option" : "command", word);
    for (size_t i = 0; i < g->sub_count; i++)
        if (g->subs[i].summary && count < CMD_SUBS_MAX)
            names[count++] = g->subs[i].name;
    nearest = word[0] == '-' ? NULL : cmd_nearest(word, names, count);
    if (nearest)
        fprintf(stderr, " (did you mean '%s'?)\n", nearest);
    else
        fprintf(stderr, " (see 'drover help%s%s')\n", group_space(g), group_name(g));
    return CMD_USAGE;
}

static void print_group(const struct cmd_group *g, FILE *to)
{
    int width = 0;

    for (size_t i = 0; i < g->sub_count; i++)
        if (g->subs[i].summary && (int)strlen(g->subs[i].name) > width)
            width = (int)strlen(g->subs[i].name);
    fprintf(to, "Usage: drover%s%s COMMAND [ARGUMENT]...\n\n%s\n", group_space(g), group_name(g),
            g->about);
    for (size_t i = 0; i < g->sub_count; i++) {
        if (g->subs[i].heading || i == 0)
            fprintf(to, "\n%s:\n", g->subs[i].heading ? g->subs[i].heading : "Commands");
        if (g->subs[i].summary)
            fprintf(to, "  %-*s  %s\n", width, g->subs[i].name, g->subs[i].summary);
    }
    fprintf(to, "\n'drover help%s%s COMMAND' explains a command.\n", group_space(g), group_name(g));
}

static void describe_group(const struct cmd_group *g)
{
    struct cmd as_cmd = {.name = g->name, .about = g->about};

    if (g->name)
        describing.see(describing.arg, &as_cmd, describing.summary);
    for (size_t i = 0; i < g->sub_count; i++) {
        char *argv[] = {(char *)g->subs[i].name, NULL};

        describing.summary = g->subs[i].summary;
        if (g->subs[i].summary)
            g->subs[i].run(1, argv);
    }
}

int cmd_group_run(const struct cmd_group *g, int argc, char **argv)
{
    const struct cmd_sub *sub;

    if (describing.see) {
        describe_group(g);
        return CMD_OK;
    }
    if (argc < 2) {
        print_group(g, stderr);
        return CMD_USAGE;
    }
    sub = find_sub(g, argv[1]);
    if (sub)
        return sub->run(argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") && strcmp(argv[1], "-h") && strcmp(argv[1], "help"))
        return unknown_sub(g, argv[1]);
    return cmd_group_help(g, argc - 1, argv + 1);
}

int cmd_group_help(const struct cmd_group *g, int argc, char **argv)
{
    char *help_argv[CMD_HELP_WORDS_MAX + 2];
    const struct cmd_sub *sub;
    int count = 0;

    if (argc < 2) {
        print_group(g, stdout);
        return CMD_OK;
    }
    sub = find_sub(g, argv[1]);
    if (!sub)
        return unknown_sub(g, argv[1]);
    for (int i = 1; i < argc && count < CMD_HELP_WORDS_MAX; i++)
        help_argv[count++] = argv[i];
    help_argv[count++] = "--help";
    help_argv[count] = NULL;
    return sub->run(count, help_argv);
}

void cmd_describe(int (*run)(int argc, char **argv), cmd_see *see, void *arg)
{
    char *argv[] = {"", NULL};

    describing.see = see;
    describing.arg = arg;
    run(1, argv);
    describing.see = NULL;
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
