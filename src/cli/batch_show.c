/*
 * drover batch show - a batch, its jobs by state, and its progress:
 *
 *     bid0000000003  Processing  u-1  merritt_demo_content
 *
 *       Pending      ██                      2
 *       Processing   █████                   5
 *       Completed    █████████████████████  21
 *
 *     [███████████████████████░░░░░░]  75% of 28 jobs have ended, 0 failed
 */
#include "base/human.h"
#include "cli/http_client.h"
#include "cli/term.h"

enum { BAR_WIDTH = 30, STATES_MAX = 64 };

struct tally {
    struct str names[STATES_MAX];
    int64_t counts[STATES_MAX];
    bool ended[STATES_MAX], failed[STATES_MAX];
    int count;
    int64_t total;
};

/* The states, in the order of the pipeline. */
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
    char jobs[HUMAN_SIZE];

    for (int i = 0; i < t->count; i++) {
        ended += t->ended[i] ? t->counts[i] : 0;
        failed += t->failed[i] ? t->counts[i] : 0;
        most = t->counts[i] > most ? t->counts[i] : most;
    }
    putchar('\n');
    for (int i = 0; i < t->count; i++) {
        if (!t->counts[i])
            continue;
        printf("  %-14.*s ", STR_ARGS(t->names[i]));
        put_bar(t->counts[i], most, BAR_WIDTH,
                t->failed[i]  ? TERM_RED
                : t->ended[i] ? TERM_GREEN
                              : TERM_BLUE,
                false);
        printf(" %6lld\n", (long long)t->counts[i]);
    }
    fputs("\n[", stdout);
    put_bar(ended, t->total, BAR_WIDTH, failed ? TERM_RED : TERM_GREEN, true);
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

/* All jobs of the batch, page by page. */
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

static int show(struct client *c, const char *bid, bool json)
{
    struct client_reply batch, machines;
    struct tally t = {.count = 0};
    int status =
        client_call(c, "GET", arena_printf(client_arena(c), "/v1/batches/%s", bid), NULL, &batch);

    if (!status && json)
        client_print_json(&batch);
    if (status || json)
        return status;
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

static int run_show(const struct cmd_call *call)
{
    struct client *c = client_open(&call->client);

    if (!c)
        return CMD_FAILURE;
    int status = show(c, client_quote(c, str_of(call->operands[0])), call->client.json);
    client_close(c);
    return status;
}

const struct cmd cmd_batch_show = CMD_INIT(
    "batch show", "show a batch and its jobs", "BID",
    "Shows a batch: its jobs by state, and how many have ended.", NULL, CMD_JSON, run_show);
