/*
 * drover batch show - a batch, its jobs by state, and how far they are:
 *
 *     bid0000000003  Processing  u-1  merritt_demo_content
 *
 *       Pending      ██                      2
 *       Processing   █████                   5
 *       Completed    █████████████████████  21
 *
 *     [███████████████████████░░░░░░]  75% of 28 jobs have ended, 0 failed
 */
#include "cli/batch_verb.h"
#include "cli/term.h"

enum { BAR_WIDTH = 30, STATES_MAX = 64 };

struct tally {
    struct str names[STATES_MAX];
    int64_t counts[STATES_MAX];
    bool ended[STATES_MAX], failed[STATES_MAX];
    int count;
    int64_t total;
};

/* The states in the order of the site's pipeline. */
static void read_states(struct tally *t, const struct json *machines)
{
    const struct json *states = json_get(json_get(machines, "job"), "states");

    if (!states)
        return;
    json_each(s, states) {
        struct str list = json_text_of(s, "batch");

        if (t->count == STATES_MAX)
            return;
        t->names[t->count] = json_text_of(s, "name");
        t->failed[t->count] = str_eq(list, STR("batch-failed"));
        t->ended[t->count] = !str_eq(list, STR("batch-processing"));
        t->count++;
    }
}

static void count_jobs(struct tally *t, const struct json *jobs)
{
    json_each(job, jobs) {
        struct str state = json_text_of(job, "state");

        t->total++;
        for (int i = 0; i < t->count; i++)
            if (str_eq(t->names[i], state))
                t->counts[i]++;
    }
}

static void put_bar(int64_t part, int64_t whole, int width, enum term_colour colour, bool rest)
{
    int full = whole ? (int)(part * width / whole) : 0;

    if (part && !full)
        full = 1;
    if (term_has_colour(stdout))
        fputs(term_colour(colour), stdout);
    for (int i = 0; i < full; i++)
        fputs("\xe2\x96\x88", stdout);
    if (term_has_colour(stdout))
        fputs(term_colour(TERM_PLAIN), stdout);
    for (int i = full; i < width; i++)
        fputs(rest ? "\xe2\x96\x91" : " ", stdout);
}

static void print_tally(const struct tally *t)
{
    int64_t ended = 0, failed = 0, most = 1;

    for (int i = 0; i < t->count; i++) {
        ended += t->ended[i] ? t->counts[i] : 0;
        failed += t->failed[i] ? t->counts[i] : 0;
        most = t->counts[i] > most ? t->counts[i] : most;
    }
    putchar('\n');
    for (int i = 0; i < t->count; i++) {
        if (!t->counts[i])
            continue;
        printf("  %-14.*s ", (int)t->names[i].len, t->names[i].p);
        put_bar(t->counts[i], most, BAR_WIDTH,
                t->failed[i]  ? TERM_RED
                : t->ended[i] ? TERM_GREEN
                              : TERM_BLUE,
                false);
        printf(" %6lld\n", (long long)t->counts[i]);
    }
    fputs("\n[", stdout);
    put_bar(ended, t->total, BAR_WIDTH, failed ? TERM_RED : TERM_GREEN, true);
    printf("] %3lld%% of %lld jobs have ended, %lld failed\n",
           (long long)(t->total ? ended * 100 / t->total : 0), (long long)t->total,
           (long long)failed);
}

static void put_safe(struct str text)
{
    struct buf b = {0};

    term_put_safe(&b, text, SIZE_MAX);
    fputs(buf_text(&b), stdout);
    buf_release(&b);
}

static void print_head(const struct json *batch)
{
    const struct json *submission = json_get(batch, "submission"),
                      *status = json_get(batch, "status");

    put_safe(json_text_of(batch, "id"));
    fputs("  ", stdout);
    put_safe(json_text_of(batch, "state"));
    fputs("  ", stdout);
    put_safe(json_text_of(submission, "batchID"));
    fputs("  ", stdout);
    put_safe(json_text_of(submission, "profile_name"));
    putchar('\n');
    if (json_text_of(status, "message").len) {
        put_safe(json_text_of(status, "message"));
        putchar('\n');
    }
}

/* All jobs of the batch, as many as the server gives at a time. */
static int tally_jobs(struct client *c, const char *bid, struct tally *t)
{
    enum { PAGE = 1000 };
    struct client_reply reply;
    const struct json *jobs;
    int status;

    do {
        const char *path = arena_printf(client_arena(c), "/v1/jobs?batch=%s&limit=%d&start=%lld",
                                        bid, PAGE, (long long)t->total);

        status = client_call(c, "GET", path, NULL, &reply);
        jobs = status ? NULL : json_get(reply.json, "jobs");
        if (jobs)
            count_jobs(t, jobs);
    } while (jobs && jobs->count == PAGE);
    return status;
}

static int show(struct client *c, const char *operand, bool json)
{
    const char *bid = client_quote(c, str_of(operand));
    struct client_reply batch, machines;
    struct tally t = {.count = 0};
    int status =
        client_call(c, "GET", arena_printf(client_arena(c), "/v1/batches/%s", bid), NULL, &batch);

    if (status)
        return status;
    if (json) {
        client_print_json(&batch);
        return CMD_OK;
    }
    status = client_call(c, "GET", "/v1/machines", NULL, &machines);
    if (!status) {
        read_states(&t, machines.json);
        status = tally_jobs(c, bid, &t);
    }
    if (status)
        return status;
    print_head(json_get(batch.json, "batch"));
    print_tally(&t);
    return CMD_OK;
}

int cmd_batch_show(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "batch show",
        .operands = "BID",
        .operands_min = 1,
        .operands_max = 1,
        .about = "Shows a batch: its jobs by state, and how many have ended.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct client *c;
    int status;

    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    status = show(c, argv[1], o.json);
    client_close(c);
    return status;
}
