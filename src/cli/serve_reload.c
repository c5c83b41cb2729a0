/*
 * The options of a running server, read again.
 *
 * They are parsed into a copy and checked there as a whole, so that a mistake changes nothing. Then
 * those that reload are parsed once more, into their own targets. What is in force is remembered as
 * text, to tell what has changed.
 */
#include <stdio.h>
#include <string.h>

#include "cli/config.h"
#include "cli/serve.h"
#include "server/reload.h"

static const struct cmd_call *running;
static const struct serve_options *in_use;
static struct cmd_value in_force[CMD_OPTIONS_MAX];
static struct cmd_parser next;
static struct serve_options next_options;

/* The same member of the copy; NULL: it is not in there, but a module's. */
static void *next_target(const struct option *o)
{
    uintptr_t at = (uintptr_t)o->target - (uintptr_t)in_use;
    return at < sizeof *in_use ? (char *)&next_options + at : NULL;
}

static int read_again(struct err_info *ret_error)
{
    next_options = (struct serve_options){0};
    TRY(cmd_parse_again(running, next_target, &next, ret_error));
    return serve_check_options(&next.call, &next_options, ret_error);
}

static const char *text_again(const char *name)
{
    const char *texts[OPTION_LIST_MAX];
    for (size_t i = 0; i < next.option_count; i++)
        if (!strcmp(next.options[i].name, name))
            return config_texts(&next.options[i], &next.values[i], texts) ? texts[0] : NULL;
    return NULL;
}

static bool is_same(const struct option *o, const struct cmd_value *a, const struct cmd_value *b)
{
    const char *a_texts[OPTION_LIST_MAX], *b_texts[OPTION_LIST_MAX];
    size_t count = config_texts(o, a, a_texts);
    bool same = config_texts(o, b, b_texts) == count;
    for (size_t i = 0; i < count && same; i++)
        same = !strcmp(a_texts[i], b_texts[i]);
    return same;
}

static void apply_again(struct buf *changed, struct buf *later)
{
    const char *texts[OPTION_LIST_MAX];
    for (size_t i = 0; i < next.option_count; i++) {
        const struct option *o = &running->options[i];
        bool reloads = o->flags & OPTION_RELOADS;
        struct buf *names = reloads ? changed : later;
        if (is_same(o, &in_force[i], &next.values[i]))
            continue;
        buf_printf(names, "%s%s", names->len ? ", " : "", o->name);
        if (!reloads)
            continue;
        option_set(o, texts, config_texts(o, &next.values[i], texts));
        in_force[i] = next.values[i];
    }
}

const struct reload_source *serve_source(const struct cmd_call *call,
                                         const struct serve_options *chosen)
{
    static const struct reload_source source = {read_again, text_again, apply_again};
    running = call;
    in_use = chosen;
    memcpy(in_force, call->values, call->option_count * sizeof *in_force);
    return &source;
}
