/*
 * The input of batch: pipelines, statuses, legacy records. The first byte selects: p, s, or any
 * other for a record, whose name ends at the first newline.
 *
 * Checks that an accepted pipeline has a final state and no dead ends, that a valid status is read
 * the same after writing it, and that the configuration of a record is JSON.
 */
#include "fuzz.h"

#include "batch/machine.h"
#include "batch/tools.h"
#include "drover.h"

static void try_pipeline(struct arena *a, struct str text)
{
    struct batch_machines m;
    struct err_info e;

    if (batch_machines_load(a, text, &m, &e))
        return;
    for (int i = 0; i < m.job.count; i++) {
        const struct batch_machine_state *s = &m.job.states[i];

        FUZZ_CHECK(batch_machine_find(&m.job, str_of(s->name)) == i);
        FUZZ_CHECK(s->success == BATCH_NO_STATE || batch_machine_allows(&m.job, i, s->success));
        FUZZ_CHECK(!batch_machine_is_final(&m.job, i) || s->list != BATCH_LIST_PROCESSING);
    }
}

static void try_status(struct arena *a, struct str text)
{
    const struct batch_machine *m = &BATCH_MACHINES_BUILT_IN.job;
    struct batch_status s, again;
    struct err_info e;

    if (batch_status_read(m, a, text, &s, &e))
        return;
    FUZZ_CHECK(!batch_status_read(m, a, batch_status_write(m, &s, a), &again, &e));
    FUZZ_CHECK(again.state == s.state && again.retry_count == s.retry_count);
    FUZZ_CHECK(str_eq(batch_status_name(m, &again), batch_status_name(m, &s)));
    FUZZ_CHECK(str_eq(again.last_successful, s.last_successful));
    FUZZ_CHECK(again.json->count >= s.json->count);
}

static void try_record(struct arena *a, struct str text)
{
    const char *end = memchr(text.p, '\n', text.len);
    struct str name = {text.p, end ? (size_t)(end - text.p) : text.len}, data = {text.p, 0};
    struct batch_legacy r;
    struct err_info e;

    if (end)
        data = (struct str){end + 1, text.len - name.len - 1};
    if (batch_legacy_read(name, data, &r))
        return;
    FUZZ_CHECK(r.priority >= 0 && r.priority <= 99);
    FUZZ_CHECK(json_parse(a, batch_legacy_configuration(a, &r), &e));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct str text;

    if (size == 0)
        return 0;
    text = (struct str){(const char *)data + 1, size - 1};
    if (data[0] == 'p')
        try_pipeline(&a, text);
    else if (data[0] == 's')
        try_status(&a, text);
    else
        try_record(&a, text);
    arena_release(&a);
    return 0;
}
