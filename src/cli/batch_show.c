/*
 * batch show: a batch, its jobs by state, and its progress:
 *
 *     bid0000000003  Processing  u-1  merritt_demo_content
 *
 *       Pending      ██                      2
 *       Processing   █████                   5
 *       Completed    █████████████████████  21
 *
 *     [███████████████████████░░░░░░]  75% of 28 jobs have ended, 0 failed
 */
#include "cli/batch.h"

#include "base/human.h"
#include "cli/verb.h"

enum { BAR_WIDTH = 30, STATES_MAX = 100 };

struct tally_state {
    struct str name;
    int64_t count;
    bool ended, failed;
};

/* The states, in the order of the pipeline. */
struct tally {
    struct tally_state states[STATES_MAX], *end;
    int64_t total;
};

static void read_states(struct tally *t, const struct json *machines)
{
    t->end = t->states;
    json_each(s, json_list(json_get(json_get(machines, "job"), "states"))) {
        struct str list = json_text_of(s, "batch");
        if (t->end == t->states + STATES_MAX)
            return;
        *t->end++ = (struct tally_state){.name = json_text_of(s, "name"),
                                         .failed = str_eq(list, STR("batch-failed")),
                                         .ended = !str_eq(list, STR("batch-processing"))};
    }
}

static void put_bar(int64_t part, int64_t whole, enum term_colour colour, const char *rest)
{
    int full = whole ? (int)(part * BAR_WIDTH / whole) : 0;
    bool coloured = term_has_colour(stdout);
    if (part && !full)
        full = 1;
    fputs(coloured ? term_colour(colour) : "", stdout);
    for (int i = 0; i < full; i++)
        fputs("\xe2\x96\x88", stdout);
    fputs(coloured ? term_colour(TERM_PLAIN) : "", stdout);
    for (int i = full; i < BAR_WIDTH; i++)
        fputs(rest, stdout);
}

static void print_tally(const struct tally *t)
{
    int64_t ended = 0, failed = 0, most = 1;
    char jobs[HUMAN_SIZE];

    for (const struct tally_state *s = t->states; s < t->end; s++) {
        ended += s->ended ? s->count : 0;
        failed += s->failed ? s->count : 0;
        most = s->count > most ? s->count : most;
    }
    putchar('\n');
    for (const struct tally_state *s = t->states; s < t->end; s++) {
        if (!s->count)
            continue;
        CLEANUP(buf_release) struct buf name = {0};
        term_put_safe(&name, s->name, SIZE_MAX);
        printf("  %-14s ", buf_text(&name));
        put_bar(s->count, most, s->failed ? TERM_RED : s->ended ? TERM_GREEN : TERM_BLUE, " ");
        printf(" %6lld\n", (long long)s->count);
    }
    fputs("\n[", stdout);
    put_bar(ended, t->total, failed ? TERM_RED : TERM_GREEN, "\xe2\x96\x91");
    printf("] %3lld%% of %s %s ended, %lld failed\n",
           (long long)(t->total ? ended * 100 / t->total : 0),
           human_count(jobs, (uint64_t)t->total, "job"), t->total == 1 ? "has" : "have",
           (long long)failed);
}

static void print_head(const struct json *batch)
{
    const struct json *submission = json_get(batch, "submission");
    struct str message = json_text_of(json_get(batch, "status"), "message");
    const struct str parts[] = {json_text_of(batch, "id"), json_text_of(batch, "state"),
                                json_text_of(submission, "batchID"),
                                json_text_of(submission, "profile_name")};
    CLEANUP(buf_release) struct buf b = {0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        buf_printf(&b, "%s", i ? "  " : "");
        term_put_safe(&b, parts[i], SIZE_MAX);
    }
    if (message.len) {
        buf_printf(&b, "\n");
        term_put_safe(&b, message, SIZE_MAX);
    }
    puts(buf_text(&b));
}

/* The state may be one that the pipeline does not have. */
static void count_job(struct tally *t, struct str state)
{
    struct tally_state *s = t->states;
    while (s < t->end && !str_eq(s->name, state))
        s++;
    if (s == t->states + STATES_MAX)
        return;
    if (s == t->end)
        *t->end++ = (struct tally_state){.name = state};
    s->count++;
}

/* All jobs of the batch, page by page. */
static int tally_jobs(struct client *c, const char *bid, struct tally *t)
{
    struct client_reply reply;
    do {
        TRY(client_call(c, &reply, NULL, "GET /v1/jobs?batch=%s&start=%lld", bid,
                        (long long)t->total));
        json_each(job, json_list(json_get(reply.json, "jobs"))) {
            count_job(t, json_text_of(job, "state"));
            t->total++;
        }
    } while (json_get(reply.json, "next"));
    return CMD_OK;
}

int batch_show(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct client_reply batch, machines;
    struct tally t = {.total = 0};
    TRY(client_open(&c, &call->client));
    const char *bid = client_quote(&c, str_of(call->operands[0]));
    TRY(client_call(&c, &batch, NULL, "GET /v1/batches/%s", bid));
    if (call->client.json) {
        client_print_json(&batch);
        return CMD_OK;
    }
    TRY(client_call(&c, &machines, NULL, "GET /v1/machines"));
    read_states(&t, machines.json);
    TRY(tally_jobs(&c, bid, &t));
    print_head(json_get(batch.json, "batch"));
    print_tally(&t);
    return CMD_OK;
}
