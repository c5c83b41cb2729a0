/* What a node that failed was, for people: its command, and the end of its output. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/dag.h"
#include "cli/run_follow.h"
#include "cli/term.h"

enum { OUTPUT_LINES = 20, OUTPUT_LEN_MAX = 4 * 1024 * 1024 };

bool run_print_output(struct client *c, const char *id, const char *key)
{
    struct dag_output out = {.id = id, .key = key};
    CLEANUP(mem_free) char *text = NULL;
    size_t len = 0, from, lines = 0;
    bool more = true;
    out.to = open_memstream(&text, &len);
    c->silent = true;
    while (more && !follow_output(c, &out, 0, &more) && len < OUTPUT_LEN_MAX)
        ;
    c->silent = false;
    fclose(out.to);
    for (from = len; from && lines < OUTPUT_LINES; from--)
        lines += text[from - 1] == '\n' && from != len;
    if (lines == OUTPUT_LINES) {
        from++;
        fputs("...\n", stderr);
    }
    term_write(stderr, (struct str){text + from, len - from}, ESCAPE_LINES);
    if (len > from && text[len - 1] != '\n')
        fputc('\n', stderr);
    fflush(stderr);
    return len;
}

/* A word as a shell takes it. */
static void put_word(struct buf *b, struct str word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=+,@%^";
    size_t i = 0;
    while (i < word.len && word.p[i] && strchr(plain, word.p[i]))
        i++;
    if (word.len && i == word.len) {
        term_put_safe(b, word, SIZE_MAX);
        return;
    }
    buf_printf(b, "'");
    for (size_t at = 0; at < word.len;) {
        const char *quote = memchr(word.p + at, '\'', word.len - at);
        size_t end = quote ? (size_t)(quote - word.p) : word.len;
        term_put_safe(b, (struct str){word.p + at, end - at}, SIZE_MAX);
        if (quote)
            buf_printf(b, "'\\''");
        at = end + (quote != NULL);
    }
    buf_printf(b, "'");
}

void run_print_command(const struct json *data)
{
    CLEANUP(buf_release) struct buf b = {0};
    const struct json *args = json_get(data, "args");
    buf_printf(&b, "$ ");
    if (args)
        put_word(&b, json_text_of(data, "command"));
    else
        term_put_safe(&b, json_text_of(data, "command"), SIZE_MAX);
    json_each(arg, json_list(args)) {
        buf_printf(&b, " ");
        put_word(&b, arg->text);
    }
    fprintf(stderr, "%s\n", buf_text(&b));
}
