/*
 * The four-letter words: a connection that begins with one gets a text and is closed. Over HTTP the
 * same is JSON.
 *
 * A word that the operator has not allowed gets a line that says so, as from ZooKeeper. By default
 * every word is allowed but wchc and wchp, which list all watches. srvr is always allowed:
 * ZooKeeper's own scripts need it.
 *
 * Answers are made on the loop, most of them under the store's lock, so lists are cut (REPORT_MAX).
 * To list 100,000 nodes or watches takes some 3 ms under the lock, and as long to send.
 */
#include <inttypes.h>

#include "base/json.h"
#include "keeper/wire/wire_impl.h"
#include "keeper/wire/wire_report.h"

enum { TRACE_MASK_LEN = 8 };

static void put_ok(struct wire *w, struct report *r)
{
    (void)w;
    report_line(r, "imok");
}

static void put_read_only(struct wire *w, struct report *r)
{
    (void)w;
    report_line(r, "rw");
    report_bool(r, "read_only", false);
}

static void put_trace_mask(struct wire *w, struct report *r)
{
    report_line(r, "%" PRId64, w->trace_mask);
    report_int(r, NULL, "tracemask", w->trace_mask);
}

/* There is no history of digests: they compare the servers of an ensemble. */
static void put_digests(struct wire *w, struct report *r)
{
    (void)w;
    report_open(r, "digests", '[');
    report_close(r, ']');
}

static void reset_connections(struct wire *w, struct report *r)
{
    struct wire_conn *c;
    TAILQ_FOREACH(c, &w->conns, link) /* changed by this thread only */
        c->traffic = (struct wire_traffic){0};
    report_line(r, "Connection stats reset.\n");
}

static void reset_server(struct wire *w, struct report *r)
{
    LOCKED(&w->l->lock);
    w->totals = (struct wire_totals){0};
    w->l->journal.sync_ms = w->l->snapshot_ms = (struct summary){0};
    report_line(r, "Server stats reset.\n");
}

struct word {
    struct wire_command command; /* first member */
    void (*put)(struct wire *w, struct report *r);
    const char *prefix, *separator; /* of its values in the text */
    bool listed_only;               /* not allowed by default */
};

static const struct word WORDS[] = {
    {{"conf", "configuration"}, wire_put_configuration, "", "="},
    {{"cons", "connections"}, wire_put_connections},
    {{"crst", "connection_stat_reset", WIRE_COMMAND_CHANGES}, reset_connections},
    {{"dirs", "dirs"}, wire_put_directories, "", ": "},
    {{"dump", "dump"}, wire_put_sessions},
    {{"envi", "environment"}, wire_put_environment, "", "="},
    {{"gtmk", "get_trace_mask"}, put_trace_mask},
    {{"hash", "hash"}, put_digests},
    {{"isro", "is_read_only"}, put_read_only},
    {{"mntr", "monitor"}, wire_put_monitor, "zk_", "\t"},
    {{"ruok", "ruok"}, put_ok},
    {{"srst", "stat_reset", WIRE_COMMAND_CHANGES}, reset_server},
    {{"srvr", "server_stats"}, wire_put_server, "", ": "},
    {{"stat", "stats"}, wire_put_status, "", ": "},
    {{"stmk", "set_trace_mask", WIRE_COMMAND_CHANGES | WIRE_COMMAND_MASK}, put_trace_mask},
    {{"wchc", "watches"}, wire_put_watches, .listed_only = true},
    {{"wchp", "watches_by_path"}, wire_put_watches_by_path, .listed_only = true},
    {{"wchs", "watch_summary"}, wire_put_watch_summary},
};

enum { WORD_COUNT = sizeof WORDS / sizeof *WORDS };

_Static_assert(WORD_COUNT <= 32, "sets of words are uint32_t");

/* WORD_COUNT: there is none. */
static size_t find(struct str word)
{
    size_t i = 0;
    while (i < WORD_COUNT && !str_eq(word, str_of(WORDS[i].command.word)))
        i++;
    return i;
}

/* Sets of words. */

static uint32_t set_of(struct str word)
{
    return UINT32_C(1) << find(word);
}

uint32_t wire_words_default(void)
{
    uint32_t set = 0;
    for (size_t i = 0; i < WORD_COUNT; i++)
        set |= WORDS[i].listed_only ? 0 : UINT32_C(1) << i;
    return set;
}

const char *wire_words_default_text(void)
{
    static char text[5 * WORD_COUNT + 1];
    char *end = text;
    for (size_t i = 0; i < WORD_COUNT; i++)
        if (!WORDS[i].listed_only)
            end += sprintf(end, "%s%s", end > text ? "," : "", WORDS[i].command.word);
    return text;
}

static struct str trim(struct str s)
{
    while (s.len && s.p[0] == ' ')
        s = (struct str){s.p + 1, s.len - 1};
    while (s.len && s.p[s.len - 1] == ' ')
        s.len--;
    return s;
}

struct str wire_words_parse(const char *list, uint32_t *ret_set)
{
    uint32_t set = set_of(STR("srvr"));
    struct str rest = str_of(list), unknown = STR("");
    while (rest.p) {
        struct str word = trim(str_cut(&rest, ','));
        if (str_eq(word, STR("*"))) {
            set = UINT32_MAX;
        } else if (find(word) < WORD_COUNT) {
            set |= set_of(word);
        } else if (!unknown.len) {
            unknown = word;
        }
    }
    *ret_set = set;
    return unknown;
}

/* On the port. */

static void put_text(struct wire *w, const struct word *word, struct buf *out)
{
    struct report r = {.out = out,
                       .prefix = word->prefix ? word->prefix : "",
                       .separator = word->separator ? word->separator : "",
                       .end = "\n"};
    word->put(w, &r);
}

enum wire_word_state wire_word(struct wire_conn *c, const char *bytes, size_t len)
{
    CLEANUP(buf_release) struct buf out = {0};
    size_t i = find((struct str){bytes, 4});
    if (i == WORD_COUNT)
        return WIRE_WORD_NONE;
    bool allowed = c->w->o.words & UINT32_C(1) << i;
    bool has_mask = allowed && WORDS[i].command.flags & WIRE_COMMAND_MASK;
    if (has_mask && len < 4 + TRACE_MASK_LEN)
        return WIRE_WORD_MORE;
    if (has_mask) {
        struct reader r = {bytes + 4, TRACE_MASK_LEN, false};
        c->w->trace_mask = jute_i64(&r);
    }
    wire_count_received(c);
    wire_conn_finish(c); /* first: the word cons shows that nothing more is read from it */
    if (allowed)
        put_text(c->w, &WORDS[i], &out);
    else
        buf_printf(&out, "%s is not executed because it is not in the whitelist.\n",
                   WORDS[i].command.word);
    wire_conn_put(c, buf_str(&out), 0);
    wire_count_sent(c, 1);
    return WIRE_WORD_DONE;
}

/* As JSON. */

const struct wire_command *wire_command_at(size_t i)
{
    return i < WORD_COUNT ? &WORDS[i].command : NULL;
}

const struct wire_command *wire_command_find(struct str name)
{
    for (size_t i = 0; i < WORD_COUNT; i++)
        if (find(name) == i || str_eq(name, str_of(WORDS[i].command.name)))
            return &WORDS[i].command;
    return NULL;
}

void wire_command_run(struct wire *w, const struct wire_command *command, int64_t mask,
                      struct buf *json)
{
    const struct word *word = (const struct word *)command;
    struct report r = {.out = json, .json = true};
    if (command->flags & WIRE_COMMAND_MASK)
        w->trace_mask = mask;
    json_open(json, '{');
    json_member_text(json, "command", str_of(command->name));
    word->put(w, &r);
    json_close(json, '}');
}
