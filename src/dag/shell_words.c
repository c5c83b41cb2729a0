/*
 * Only characters that no shell interprets anywhere in a word are accepted, so quotes, variables,
 * patterns and redirections all lead to the shell. The program must be found, and be a binary or a
 * script that names its interpreter: about anything else the shell knows what to say or do.
 */
#include "dag/shell_words.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

enum { WORDS_MAX = 256 };

/* Builtin commands and keywords of bash, except true, false and echo, which are programs too. */
static const char *const SHELL_COMMANDS[] = {
    ".",       ":",        "alias",   "bg",        "bind",     "break",   "builtin",  "caller",
    "case",    "cd",       "command", "compgen",   "complete", "compopt", "continue", "coproc",
    "declare", "dirs",     "disown",  "do",        "done",     "elif",    "else",     "enable",
    "esac",    "eval",     "exec",    "exit",      "export",   "fc",      "fg",       "fi",
    "for",     "function", "getopts", "hash",      "help",     "history", "if",       "in",
    "jobs",    "kill",     "let",     "local",     "logout",   "mapfile", "popd",     "printf",
    "pushd",   "pwd",      "read",    "readarray", "readonly", "return",  "select",   "set",
    "shift",   "shopt",    "source",  "suspend",   "test",     "then",    "time",     "times",
    "trap",    "type",     "typeset", "ulimit",    "umask",    "unalias", "unset",    "until",
    "wait",    "while",
};

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-./:,+@%^= \t", c));
}

/* A text of the first word alone decides; echo has options that differ. */
static bool is_program(const char *const *words)
{
    const char *name = words[0];
    if (*name == '%' || strchr(name, '='))
        return false;
    for (size_t i = 0; i < sizeof SHELL_COMMANDS / sizeof *SHELL_COMMANDS; i++)
        if (!strcmp(SHELL_COMMANDS[i], name))
            return false;
    for (const char *const *w = words + 1; *w && !strcmp(name, "echo"); w++)
        if (**w == '-')
            return false;
    return true;
}

const char *const *shell_words(const char *text, struct arena *a)
{
    const char **words = arena_alloc(a, (WORDS_MAX + 1) * sizeof *words);
    size_t count = 0;
    for (const char *p = text; *p; p++)
        if (!is_plain(*p))
            return NULL;
    for (const char *p = text + strspn(text, " \t"); *p; p += strspn(p, " \t")) {
        size_t len = strcspn(p, " \t");
        if (count == WORDS_MAX)
            return NULL;
        words[count++] = arena_text(a, (struct str){p, len});
        p += len;
    }
    words[count] = NULL;
    return count && is_program(words) ? words : NULL;
}

/* Whether the kernel can execute the file. A script without "#!" is for the shell. */
static bool is_executable(const char *path)
{
    char magic[4] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, magic, sizeof magic);
    close(fd);
    return got == sizeof magic && !access(path, X_OK) &&
           (!memcmp(magic, "\177ELF", 4) || !memcmp(magic, "#!", 2));
}

static const char *find_variable(const char *const *envp, const char *name)
{
    size_t len = strlen(name);
    for (; *envp; envp++)
        if (!strncmp(*envp, name, len) && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

/* Variables that change what a shell does. */
static bool is_for_shell(const char *const *envp)
{
    for (; *envp; envp++)
        if (!strncmp(*envp, "BASH", 4) || !strncmp(*envp, "SHELLOPTS=", 10))
            return true;
    return false;
}

const char *const *shell_skip(const char *const *argv, const char *const *envp, const char *cwd,
                              const struct policy_grant *grant, struct arena *a)
{
    if (!argv[0] || strcmp(argv[0], "bash") != 0 || !argv[1] || strcmp(argv[1], "-c") != 0 ||
        !argv[2] || argv[3] || grant->paths || grant->account || is_for_shell(envp))
        return argv;
    const char *const *words = shell_words(argv[2], a);
    const char *path =
        words ? process_find(a, words[0], find_variable(envp, "PATH"), false)[0] : NULL;
    if (path && path[0] != '/' && cwd)
        path = arena_printf(a, "%s/%s", cwd, path);
    return path && is_executable(path) ? words : argv;
}
