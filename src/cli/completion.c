/*
 * The commands are gathered from their tables, then written as one script: a frame, and in it tables of
 * what may stand where. What that is, the tables of options say: "strict|none" are words, FILE and DIR
 * are files, GROUP is asked from the server.
 */
#include "cli/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "cli/cmd.h"

/* One command. Its texts are literals of the program. */
struct entry {
    struct entry *next;
    const char *name, *summary, *operands;
    const struct option *options;
    size_t option_count;
};

struct gathered {
    struct entry *first, **end;
    struct arena arena;
};

static void gather(void *arg, const struct cmd *c, const char *summary)
{
    struct gathered *g = arg;
    struct entry *e = arena_zalloc(&g->arena, sizeof *e);
    struct option *copy = arena_alloc(&g->arena, c->option_count * sizeof *copy);

    if (c->option_count)
        memcpy(copy, c->options, c->option_count * sizeof *copy);
    *e = (struct entry){NULL, c->name, summary, c->operands, copy, c->option_count};
    *g->end = e;
    g->end = &e->next;
}

/* What may stand in a place. */

enum kind { KIND_NOTHING, KIND_WORDS, KIND_FILES, KIND_GROUPS };

static bool is_words(const char *text)
{
    if (!strchr(text, '|'))
        return false;
    for (; *text; text++)
        if (!islower((unsigned char)*text) && *text != '|' && *text != '-')
            return false;
    return true;
}

static enum kind kind_of(const char *text)
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

/* The word of a command that follows the words of a group ("" is drover itself), or NULL. */
static const char *word_in(const struct entry *e, const char *group)
{
    size_t len = strlen(group);
    const char *word = e->name + (len ? len + 1 : 0);

    if (len && (strncmp(e->name, group, len) != 0 || e->name[len] != ' '))
        return NULL;
    return strchr(word, ' ') ? NULL : word;
}

static void print_words_of(const struct gathered *g, const char *group)
{
    for (const struct entry *e = g->first; e; e = e->next) {
        const char *word = word_in(e, group);

        if (word)
            printf(" %s", word);
    }
}

/* A case that holds for every command: bash and zsh write it alike. */
static void print_names(const struct gathered *g)
{
    printf("    case \"$try\" in\n    ");
    for (const struct entry *e = g->first; e; e = e->next)
        printf("%s'%s'", e == g->first ? "" : "|", e->name);
    printf(") command=$try ;;\n    esac\n");
}

/* bash */

static void bash_values(const struct entry *e)
{
    for (size_t i = 0; i < e->option_count; i++) {
        const char *argument = e->options[i].argument;
        enum kind kind = kind_of(argument);

        if (!argument)
            continue;
        printf("  '%s --%s') ", e->name, e->options[i].name);
        if (kind == KIND_WORDS) {
            printf("words='");
            print_words(argument);
            printf("' ;;\n");
        } else {
            printf("kind=%s ;;\n", kind == KIND_FILES ? "files" : "nothing");
        }
    }
}

static void bash_command(const struct gathered *g, const struct entry *e)
{
    enum kind kind = kind_of(e->operands);

    printf("    '%s') options='", e->name);
    for (size_t i = 0; i < e->option_count; i++)
        printf("--%s ", e->options[i].name);
    printf("--help' words='");
    print_words_of(g, strcmp(e->name, "help") ? e->name : "");
    if (kind == KIND_WORDS)
        print_words(e->operands);
    printf("'%s ;;\n", kind == KIND_FILES    ? " kind=files"
                       : kind == KIND_GROUPS ? " kind=groups"
                                             : "");
}

static void bash_print(const struct gathered *g)
{
    fputs("# Completion of drover for bash. Written by 'drover completion bash'.\n"
          "_drover() {\n"
          "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
          "  local command='' options='' words='' kind='' try i\n"
          "  COMPREPLY=()\n"
          "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "    case \"${COMP_WORDS[i]}\" in\n"
          "    --) COMPREPLY=($(compgen -c -- \"$cur\")); return ;;\n"
          "    -*) continue ;;\n"
          "    esac\n"
          "    try=\"${command:+$command }${COMP_WORDS[i]}\"\n",
          stdout);
    print_names(g);
    printf("  done\n  case \"$command $prev\" in\n");
    for (const struct entry *e = g->first; e; e = e->next)
        bash_values(e);
    printf("  *)\n    case \"$command\" in\n    '') options='--help --version' words='");
    print_words_of(g, "");
    printf("' ;;\n");
    for (const struct entry *e = g->first; e; e = e->next)
        bash_command(g, e);
    fputs("    esac ;;\n"
          "  esac\n"
          "  if [[ $cur == -* ]]; then\n"
          "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
          "    return\n"
          "  fi\n"
          "  case \"$kind\" in\n"
          "  files) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
          "  groups) words+=\" $(drover groups 2>/dev/null)\" ;;\n"
          "  esac\n"
          "  COMPREPLY+=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "}\n"
          "complete -o filenames -F _drover drover\n",
          stdout);
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

static void zsh_values(const struct entry *e)
{
    for (size_t i = 0; i < e->option_count; i++) {
        const char *argument = e->options[i].argument;
        enum kind kind = kind_of(argument);

        if (!argument)
            continue;
        printf("  '%s --%s') ", e->name, e->options[i].name);
        if (kind == KIND_WORDS) {
            printf("compadd --");
            print_words(argument);
        } else {
            printf("%s", kind == KIND_FILES ? "_files" : ":");
        }
        printf("; return ;;\n");
    }
}

static void zsh_options(const struct entry *e)
{
    printf("    '%s') list=(", e->name);
    for (size_t i = 0; i < e->option_count; i++)
        zsh_item("--", e->options[i].name, e->options[i].help);
    zsh_item("--", "help", "Print this and exit.");
    printf(") ;;\n");
}

static void zsh_subs(const struct gathered *g, const char *command, const char *group)
{
    printf("  '%s') list=(", command);
    for (const struct entry *e = g->first; e; e = e->next)
        if (word_in(e, group))
            zsh_item("", word_in(e, group), e->summary);
    printf(")");
}

static void zsh_operands(const struct gathered *g, const struct entry *e)
{
    zsh_subs(g, e->name, strcmp(e->name, "help") ? e->name : "");
    switch (kind_of(e->operands)) {
    case KIND_WORDS:
        printf("; compadd --");
        print_words(e->operands);
        break;
    case KIND_FILES:
        printf("; _files");
        break;
    case KIND_GROUPS:
        printf("; compadd -- ${(f)\"$(drover groups 2>/dev/null)\"}");
        break;
    case KIND_NOTHING:
        break;
    }
    printf(" ;;\n");
}

static void zsh_print(const struct gathered *g)
{
    fputs("#compdef drover\n"
          "# Completion of drover for zsh. Written by 'drover completion zsh'.\n"
          "_drover() {\n"
          "  local command='' try i\n"
          "  local -a list\n"
          "  for ((i = 2; i < CURRENT; i++)); do\n"
          "    case \"${words[i]}\" in\n"
          "    --) (( i + 1 == CURRENT )) && _command_names || _files; return ;;\n"
          "    -*) continue ;;\n"
          "    esac\n"
          "    try=\"${command:+$command }${words[i]}\"\n",
          stdout);
    print_names(g);
    printf("  done\n  case \"$command ${words[CURRENT-1]}\" in\n");
    for (const struct entry *e = g->first; e; e = e->next)
        zsh_values(e);
    fputs("  esac\n"
          "  if [[ ${words[CURRENT]} == -* ]]; then\n"
          "    case \"$command\" in\n"
          "    '') list=('--help:explain drover' '--version:print the version') ;;\n",
          stdout);
    for (const struct entry *e = g->first; e; e = e->next)
        zsh_options(e);
    fputs("    esac\n"
          "    _describe -o option list\n"
          "    return\n"
          "  fi\n"
          "  case \"$command\" in\n",
          stdout);
    zsh_subs(g, "", "");
    printf(" ;;\n");
    for (const struct entry *e = g->first; e; e = e->next)
        zsh_operands(g, e);
    fputs(
        "  esac\n"
        "  (( $#list )) && _describe command list\n"
        "}\n"
        "if [[ $funcstack[1] == _drover ]]; then _drover \"$@\"; else compdef _drover drover; fi\n",
        stdout);
}

bool completion_print(const char *shell, int (*run)(int argc, char **argv))
{
    static const struct {
        const char *shell;
        void (*print)(const struct gathered *g);
    } rows[] = {{"bash", bash_print}, {"zsh", zsh_print}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(shell, rows[i].shell)) {
            struct gathered g = {0};

            g.end = &g.first;
            cmd_describe(run, gather, &g);
            rows[i].print(&g);
            arena_release(&g.arena);
            return true;
        }
    return false;
}
