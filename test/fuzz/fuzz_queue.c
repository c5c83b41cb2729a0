/*
 * What queues and their workers read from others: the data of a queue's node, of its owner, of a
 * worker, and a server's answers. The first byte selects: l, o, m, p, or any other for a worker's
 * node.
 *
 * For any input: what parses is written so that it parses to the same.
 */
#include "fuzz.h"

#include "client/worker.h"
#include "queue/membership.h"

static void try_last(struct str text)
{
    struct buf b = {0};
    int64_t last, again;

    if (queue_parse_last(text, &last))
        return;
    FUZZ_CHECK(last >= 0);
    queue_put_last(&b, last);
    FUZZ_CHECK(!queue_parse_last((struct str){b.p, b.len}, &again) && again == last);
    buf_release(&b);
}

static void try_owner(struct str text)
{
    char worker[256];

    if (!queue_parse_owner(text, worker))
        FUZZ_CHECK(strlen(worker) < sizeof worker);
}

static void try_messages(struct arena *a, struct str text)
{
    struct queue_message_list list = {0};
    struct err_info e;

    message_parse_list(json_parse(a, text, NULL), &list, &e);
    for (size_t i = 0; i < list.count; i++)
        FUZZ_CHECK(list.messages[i].data.p);
    queue_message_list_release(&list);
}

static void try_news(struct arena *a, struct str text)
{
    struct message_news news;
    int64_t number;

    if (message_parse_news(json_parse(a, text, NULL), a, &number, &news))
        return;
    FUZZ_CHECK(number >= 0 && (news.queues || !news.count));
}

/* Two workers with the same data: each queue has one owner, which may handle it. */
static void try_worker(struct arena *a, struct str text)
{
    static const char *queues[] = {"00000000000000000000000000000001",
                                   "00000000000000000000000000000002"};
    struct queue_member workers[] = {{.name = "worker-1"}, {.name = "worker-2"}};
    struct queue_membership c = {
        .workers = workers, .worker_count = 2, .queues = queues, .queue_count = 2};
    int32_t owners[2];

    if (!queue_membership_parse_worker(a, text, &workers[0]))
        return;
    workers[1].queues = workers[0].queues;
    workers[1].queue_count = workers[0].queue_count;
    queue_membership_assign(&c, owners);
    FUZZ_CHECK(owners[0] >= 0 && owners[0] < 2 && owners[1] >= 0 && owners[1] < 2);
    FUZZ_CHECK(workers[0].only || owners[0] != owners[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct str text;
    char *copy;

    if (size == 0)
        return 0;
    copy = fuzz_exact((struct str){(const char *)data + 1, size - 1});
    text = (struct str){copy, size - 1};
    if (data[0] == 'l')
        try_last(text);
    else if (data[0] == 'o')
        try_owner(text);
    else if (data[0] == 'm')
        try_messages(&a, text);
    else if (data[0] == 'p')
        try_news(&a, text);
    else
        try_worker(&a, text);
    arena_release(&a);
    free(copy);
    return 0;
}
