/*
 * drover completion - prints a script with which a shell completes the commands and options.
 *
 * A script is a frame of text, and in it tables with a line for each command: which words may stand
 * in each place. The tables of options tell what these are: "strict|none" are words, FILE and DIR
 * are files, GROUP is asked from the server.
 */
#include "cli/cmd.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What may stand in one place. */

enum completion_kind { KIND_NOTHING, KIND_WORDS, KIND_FILES, KIND_GROUPS };

static bool is_words(const char *text)
{
    if (!strchr(text, '|'))
        return false;
    for (; *text; text++)
        if (!islower((unsigned char)*text) && *text != '|' && *text != '-')
            return false;
    return true;
}

static enum completion_kind kind_of(const char *text)
{
    if (!text)
        return KIND_NOTHING;
    if (is_words(text))
        return KIND_WORDS;
    if (strstr(text, "FILE") || strstr(text, "DIR"))
        return KIND_FILES;
    return strstr(text, "GROUP") ? KIND_GROUPS : KIND_NOTHING;
}

/* "a|b" as " a b". */
static void print_words(const char *text)
{
    putchar(' ');
    for (; *text; text++)
        putchar(*text == '|' ? ' ' : *text);
}

/* The commands whose words may follow. */
static const struct cmd *const *next_commands(const struct cmd *c)
{
    static const struct cmd *const none[] = {NULL};
    return !strcmp(c->name, "help") ? cmd_drover.subs : c->subs ? c->subs : none;
}

/* A case that matches every command; the same for bash and zsh. */
static void print_name(const struct cmd *c)
{
    printf("%s'%s'", c == cmd_drover.subs[0] ? "" : "|", c->name);
}

/* How the shell completes the value of an option. */
struct value_style {
    const char *before_words, *after_words, *files, *nothing;
};

static const struct value_style BASH_VALUES = {"words='", "'", "kind=files", "kind=nothing"},
                                ZSH_VALUES = {"compadd --", "; return", "_files; return",
                                              ":; return"},
                                *style;

static void print_values(const struct cmd *c)
{
    struct option options[CMD_OPTIONS_MAX];
    size_t count = cmd_all_options(c, options);
    for (const struct option *o = options; o < options + count; o++) {
        enum completion_kind kind = kind_of(o->argument);
        if (!o->argument)
            continue;
        printf("  '%s --%s') ", c->name, o->name);
        if (kind == KIND_WORDS) {
            printf("%s", style->before_words);
            print_words(o->argument);
            printf("%s", style->after_words);
        } else {
            printf("%s", kind == KIND_FILES ? style->files : style->nothing);
        }
        printf(" ;;\n");
    }
}

/* bash */

static void bash_command(const struct cmd *c)
{
    enum completion_kind kind = kind_of(c->operands);
    struct option options[CMD_OPTIONS_MAX];
    size_t count = cmd_all_options(c, options);
    printf("    '%s') options='", c->name);
    for (size_t i = 0; i < count; i++)
        printf("--%s ", options[i].name);
    printf("--help%s' words='", c == &cmd_drover ? " --version" : "");
    for (const struct cmd *const *sub = next_commands(c); *sub; sub++)
        printf(" %s", cmd_word(*sub));
    if (kind == KIND_WORDS)
        print_words(c->operands);
    printf("'%s ;;\n", kind == KIND_FILES    ? " kind=files"
                       : kind == KIND_GROUPS ? " kind=groups"
                                             : "");
}

/* zsh */

/* 'word:what it is about', up to the end of a line, in quotes. */
static void zsh_item(const char *dashes, const char *word, const char *about)
{
    printf(" '%s%s:", dashes, word);
    for (; about && *about && *about != '\n'; about++) {
        if (*about == '\'')
            printf("'\\''");
        else
            putchar(*about);
    }
    putchar('\'');
}

static void zsh_options(const struct cmd *c)
{
    struct option options[CMD_OPTIONS_MAX];
    size_t count = cmd_all_options(c, options);
    printf("    '%s') list=(", c->name);
    for (size_t i = 0; i < count; i++)
        zsh_item("--", options[i].name, options[i].help);
    zsh_item("--", "help", "Print this and exit.");
    printf(") ;;\n");
}

static void zsh_operands(const struct cmd *c)
{
    enum completion_kind kind = kind_of(c->operands);
    printf("  '%s') list=(", c->name);
    for (const struct cmd *const *sub = next_commands(c); *sub; sub++)
        zsh_item("", cmd_word(*sub), (*sub)->summary);
    printf(")%s", kind == KIND_WORDS   ? "; compadd --"
                  : kind == KIND_FILES ? "; _files"
                  : kind == KIND_GROUPS
                      ? "; compadd -- ${(f)\"$(drover groups --names 2>/dev/null)\"}"
                      : "");
    if (kind == KIND_WORDS)
        print_words(c->operands);
    printf(" ;;\n");
}

/* The scripts. */

/* A text, and a table that follows it. */
struct part {
    const char *text;
    void (*print)(const struct cmd *c); /* NULL: the end */
    bool drover_too;                    /* the table begins with drover itself */
};

/* The end of the loop that finds the command, in both shells. */
#define COMMAND_FOUND ") command=$try ;;\n    esac\n  done\n"

static const struct part BASH[] = {
    {"# Completion of drover for bash. Generated by 'drover completion bash'.\n"
     "_drover() {\n"
     "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
     "  local command='' options='' words='' kind='' try i\n"
     "  COMPREPLY=()\n"
     "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
     "    case \"${COMP_WORDS[i]}\" in\n"
     "    --) COMPREPLY=($(compgen -c -- \"$cur\")); return ;;\n"
     "    -*) continue ;;\n"
     "    esac\n"
     "    try=\"${command:+$command }${COMP_WORDS[i]}\"\n"
     "    case \"$try\" in\n"
     "    ",
     print_name},
    {COMMAND_FOUND "  case \"$command $prev\" in\n", print_values},
    {"  *)\n"
     "    case \"$command\" in\n",
     bash_command, true},
    {"    esac ;;\n"
     "  esac\n"
     "  if [[ $cur == -* ]]; then\n"
     "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
     "    return\n"
     "  fi\n"
     "  case \"$kind\" in\n"
     "  files) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
     "  groups) words+=\" $(drover groups --names 2>/dev/null)\" ;;\n"
     "  esac\n"
     "  COMPREPLY+=($(compgen -W \"$words\" -- \"$cur\"))\n"
     "}\n"
     "complete -o filenames -F _drover drover\n"},
};

static const struct part ZSH[] = {
    {"#compdef drover\n"
     "# Completion of drover for zsh. Generated by 'drover completion zsh'.\n"
     "_drover() {\n"
     "  local command='' try i\n"
     "  local -a list\n"
     "  for ((i = 2; i < CURRENT; i++)); do\n"
     "    case \"${words[i]}\" in\n"
     "    --) (( i + 1 == CURRENT )) && _command_names || _files; return ;;\n"
     "    -*) continue ;;\n"
     "    esac\n"
     "    try=\"${command:+$command }${words[i]}\"\n"
     "    case \"$try\" in\n"
     "    ",
     print_name},
    {COMMAND_FOUND "  case \"$command ${words[CURRENT-1]}\" in\n", print_values},
    {"  esac\n"
     "  if [[ ${words[CURRENT]} == -* ]]; then\n"
     "    case \"$command\" in\n"
     "    '') list=('--help:explain drover' '--version:print the version') ;;\n",
     zsh_options},
    {"    esac\n"
     "    _describe -o option list\n"
     "    return\n"
     "  fi\n"
     "  case \"$command\" in\n",
     zsh_operands, true},
    {"  esac\n"
     "  (( $#list )) && _describe command list\n"
     "}\n"
     "if [[ $funcstack[1] == _drover ]]; then _drover \"$@\"; else compdef _drover drover; fi\n"},
};

/* A group stands before its commands. */
static void print_table(const struct cmd *group, void (*print)(const struct cmd *c))
{
    for (const struct cmd *const *sub = group->subs; sub && *sub; sub++) {
        print(*sub);
        print_table(*sub, print);
    }
}

static int run_completion(const struct cmd_call *call)
{
    bool bash = !strcmp(call->operands[0], "bash");
    if (!bash && strcmp(call->operands[0], "zsh") != 0)
        return cmd_usage_error(call->cmd, "'%s' is none of bash|zsh", call->operands[0]);
    style = bash ? &BASH_VALUES : &ZSH_VALUES;
    for (const struct part *p = bash ? BASH : ZSH;; p++) {
        fputs(p->text, stdout);
        if (!p->print)
            return CMD_OK;
        if (p->drover_too)
            p->print(&cmd_drover);
        print_table(&cmd_drover, p->print);
    }
}

const struct cmd cmd_completion =
    CMD_INIT("completion", "print a completion script for a shell", "bash|zsh",
             "Prints a script with which the shell completes the commands and options of\n"
             "drover: source <(drover completion bash). 'make install' installs it.",
             NULL, CMD_LOCAL, run_completion);
