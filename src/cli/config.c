/*
 * The environment is read before the file, because it may name the file. Both only fill what no
 * higher source has given.
 */
#include "cli/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

enum { FILE_LEN_MAX = 256 * 1024 };

/* Values are used as long as the process lives, and reading again mostly finds the same ones. */
static const char *keep(struct str text)
{
    static char **kept;
    static size_t count, cap;
    for (size_t i = 0; i < count; i++)
        if (str_eq(str_of(kept[i]), text))
            return kept[i];
    mem_grow(kept, count, cap);
    return kept[count++] = mem_dup(text.p, text.len);
}

/* The option of that name, unless it has one of the flags. */
static const struct option *find(const struct cmd_parser *p, const char *name, unsigned except)
{
    for (size_t i = 0; i < p->option_count; i++)
        if (!strcmp(p->options[i].name, name) && !(p->options[i].flags & except))
            return &p->options[i];
    return NULL;
}

/* Describes a name that no option has: where it stands, and what was probably meant. */
static int unknown(const struct cmd_parser *p, const char *where, const char *name, unsigned except,
                   struct err_info *ret_error)
{
    const char *names[CMD_OPTIONS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < p->option_count; i++)
        if (!(p->options[i].flags & except))
            names[count++] = p->options[i].name;
    const char *nearest = cmd_nearest(name, names, count);
    return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s: there is no option '%s'%s%s%s", where, name,
                   nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}

/* Parses a value into its target. One that a higher source overrules is only checked. */
static int take(struct cmd_parser *p, const struct option *o, const char *text,
                enum cmd_source source, int line, struct err_info *ret_error)
{
    const struct cmd_value *v = &p->values[o - p->options];
    union option_value unused = {0};
    struct option row = *o;
    bool overruled = v->given && v->source > source;
    if (overruled)
        row.target = &unused;
    TRY(row.parse(&row, text, ret_error));
    if (!overruled)
        cmd_note_given(p, o, text, source, line);
    return 0;
}

/* The environment. */

const char *config_variable(char *out, const struct cmd *c, const struct option *o)
{
    size_t len = (size_t)snprintf(out, CONFIG_ORIGIN_SIZE, "%s%s", c->variables, o->name);
    for (size_t i = strlen(c->variables); i < len; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
    return out;
}

/* "ZK_SKIP_ACL=yes" is "zk-skip-acl". */
static void option_name(const char *variable, char *name, size_t size)
{
    snprintf(name, size, "%.*s", (int)strcspn(variable, "="), variable);
    for (char *at = name; *at; at++)
        *at = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
}

static int take_variable(struct cmd_parser *p, const struct option *o, const char *text,
                         struct err_info *ret_error)
{
    char variable[CONFIG_ORIGIN_SIZE];
    struct str rest = str_of(text);
    struct err_info e;
    int err = 0;
    if (!option_is_list(o))
        err = take(p, o, text, CMD_ENVIRONMENT, 0, &e);
    while (option_is_list(o) && rest.p && !err) {
        struct str item = str_cut(&rest, '\n');
        if (item.len)
            err = take(p, o, keep(item), CMD_ENVIRONMENT, 0, &e);
    }
    if (!err)
        return 0;
    return err_set(ret_error, err, "$%s: %s", config_variable(variable, p->c, o), e.text);
}

static int read_variables(struct cmd_parser *p, struct err_info *ret_error)
{
    size_t prefix = strlen(p->c->variables);
    char name[64], where[128], wanted[CONFIG_ORIGIN_SIZE];
    for (char **each = environ; *each; each++) {
        const char *text = *each + strcspn(*each, "=");
        if (strncmp(*each, p->c->variables, prefix) || !*text || !text[1])
            continue;
        option_name(*each + prefix, name, sizeof name);
        snprintf(where, sizeof where, "$%.*s", (int)(text - *each), *each);
        const struct option *o = find(p, name, OPTION_COMMAND_LINE);
        if (!o)
            return unknown(p, where, name, OPTION_COMMAND_LINE, ret_error);
        if (strcmp(where + 1, config_variable(wanted, p->c, o)) != 0)
            return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s: write %s", where, wanted);
        TRY(take_variable(p, o, text + 1, ret_error));
    }
    return 0;
}

/* The file. */

/* Whoever can change the file chooses the programs that the server runs. */
static int check_owner(const struct stat *st, const char *path, struct err_info *ret_error)
{
    if (!S_ISREG(st->st_mode))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is not a file", path);
    if (st->st_size > FILE_LEN_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is longer than %d bytes", path,
                       FILE_LEN_MAX);
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s belongs to another user, who could have programs run: chown it", path);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "others may write %s and could have programs run: chmod go-w", path);
    return 0;
}

static int read_all(int fd, const char *path, struct buf *b, struct err_info *ret_error)
{
    struct stat st;
    ssize_t got;
    if (fstat(fd, &st))
        return err_set_errno(ret_error, errno, "cannot read %s", path);
    TRY(check_owner(&st, path, ret_error));
    do {
        buf_reserve(b, 4096);
        got = read(fd, b->p + b->len, 4096);
        b->len += got > 0 ? (size_t)got : 0;
    } while (got > 0 && b->len <= FILE_LEN_MAX);
    if (got < 0)
        return err_set_errno(ret_error, errno, "cannot read %s", path);
    return 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Without its comment, and the spaces around it. */
static struct str strip(struct str line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.p[i] == '#' && (i == 0 || is_space(line.p[i - 1])))
            line.len = i;
    while (line.len && is_space(line.p[line.len - 1]))
        line.len--;
    while (line.len && is_space(*line.p))
        line = (struct str){line.p + 1, line.len - 1};
    return line;
}

static bool is_printable(struct str line)
{
    for (size_t i = 0; i < line.len; i++)
        if (iscntrl((unsigned char)line.p[i]) && line.p[i] != '\t')
            return false;
    return true;
}

/* A file while it is read. */
struct config_lines {
    struct cmd_parser *p;
    const char *path;
    int number;                 /* of the line, from 1 */
    int first[CMD_OPTIONS_MAX]; /* by option: the line that has it; 0: none */
};

static int take_line(struct config_lines *f, struct str line, struct err_info *ret_error)
{
    enum { EXCEPT = OPTION_COMMAND_LINE | OPTION_VARIABLE };
    char name[64];
    size_t len = 0;
    while (len < line.len && !is_space(line.p[len]))
        len++;
    snprintf(name, sizeof name, "%.*s", (int)len, line.p);
    struct str value = strip((struct str){line.p + len, line.len - len});
    const struct option *o = find(f->p, name, EXCEPT);
    if (!o)
        return unknown(f->p, "", name, EXCEPT, ret_error);
    int *first = &f->first[o - f->p->options];
    if (*first && !option_is_list(o))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, ": %s stands in line %d already", name,
                       *first);
    *first = f->number;
    if (o->argument && !value.len)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, ": %s needs a value: %s", name, o->argument);
    struct err_info e;
    int err = take(f->p, o, value.len ? keep(value) : NULL, CMD_FILE, f->number, &e);
    return err ? err_set(ret_error, err, ": %s: %s", name, e.text) : 0;
}

static int take_lines(struct config_lines *f, struct str rest, struct err_info *ret_error)
{
    struct err_info e;
    int err = 0;
    for (f->number = 1; rest.p && !err; f->number++) {
        struct str line = strip(str_cut(&rest, '\n'));
        if (!is_printable(line))
            err = err_set(&e, DROVER_BAD_ARGUMENT, ": a control character");
        else if (line.len)
            err = take_line(f, line, &e);
        if (err)
            return err_set(ret_error, err, "%s:%d%s", f->path, f->number, e.text);
    }
    return 0;
}

/* The file that is named, or the one that every server reads. NULL: none. */
static const char *file_of(const struct cmd_parser *p, bool *ret_named)
{
    const struct option *o = find(p, "config", 0);
    const char *path = o ? p->values[o - p->options].given : NULL;
    *ret_named = path;
    if (!path)
        return CONFIG_FILE;
    return strcmp(path, "none") != 0 ? path : NULL;
}

static int read_file(struct cmd_parser *p, struct err_info *ret_error)
{
    bool named;
    struct config_lines f = {.p = p, .path = file_of(p, &named)};
    CLEANUP(buf_release) struct buf b = {0};
    if (!f.path)
        return 0;
    int fd = open(f.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && !named)
        return 0;
    if (fd < 0)
        return err_set_errno(ret_error, errno, "cannot read %s", f.path);
    int err = read_all(fd, f.path, &b, ret_error);
    close(fd);
    if (err)
        return err;
    p->call.file = f.path;
    return take_lines(&f, buf_str(&b), ret_error);
}

int config_read(struct cmd_parser *p, struct err_info *ret_error)
{
    TRY(read_variables(p, ret_error));
    return read_file(p, ret_error);
}

size_t config_texts(const struct option *o, const struct cmd_value *v,
                    const char *texts[static OPTION_LIST_MAX])
{
    if (v->list_given.count) {
        memcpy(texts, v->list_given.items, v->list_given.count * sizeof *texts);
        return v->list_given.count;
    }
    texts[0] = v->given ? v->given : option_initial(o);
    if (option_is_flag(o))
        texts[0] = v->given && strcmp(v->given, "no") != 0 ? "yes" : "no";
    return texts[0] ? 1 : 0;
}

const char *config_origin(char *out, const struct cmd_call *call, size_t option)
{
    const struct option *o = &call->options[option];
    const struct cmd_value *v = &call->values[option];
    char variable[CONFIG_ORIGIN_SIZE];
    if (v->source == CMD_FILE)
        snprintf(out, CONFIG_ORIGIN_SIZE, "%s:%d: %s", call->file, v->line, o->name);
    else if (v->source == CMD_ENVIRONMENT)
        snprintf(out, CONFIG_ORIGIN_SIZE, "$%s", config_variable(variable, call->cmd, o));
    else
        snprintf(out, CONFIG_ORIGIN_SIZE, "--%s", o->name);
    return out;
}
