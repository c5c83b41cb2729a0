/* What the runs of an agent print, on its way to the sender. */
#include "cli/agent.h"

/*
 * Of what a server does not keep, it gets the beginning and the end, if there is a file here that
 * has all. Returns the offset up to which to send now.
 */
static uint64_t send_limit(struct agent_run *r, uint64_t total)
{
    uint64_t half = r->limit / 2;
    if (!r->limit || !r->output->store)
        return UINT64_MAX;
    if (r->ended && total > 2 * half && r->want.next < total - half) {
        struct output_view v;
        output_look(r->output, RUN_MIXED, total - half, false, &v);
        if (output_offset(&v.from.at, RUN_MIXED) > r->want.next) {
            r->want.next = output_offset(&v.from.at, RUN_MIXED);
            r->at = v.from.at;
            output_file_close(&r->file);
        }
        output_view_release(&v);
    }
    return r->ended ? UINT64_MAX : half;
}

/* Moves r->at over the records of a message. */
static void count_records(struct agent_run *r, struct str records)
{
    struct output_record one;
    for (ssize_t len; (len = output_read_record(records.p, records.len, true, &one)) > 0;
         records.p += len, records.len -= (size_t)len)
        for (int i = 0; i < 2; i++)
            r->at.of[i] += one.kind == OUTPUT_GAP ? one.numbers[i]
                           : (int)one.kind == i   ? one.data.len
                                                  : 0;
}

bool agent_queue_output(struct agent_run *r)
{
    struct output *o = r->output;
    uint64_t total = output_offset(&o->total, RUN_MIXED), limit = send_limit(r, total);
    while (r->want.next < total && r->want.next < limit && agent_unsent(r) < AGENT_UNSENT_MAX) {
        struct buf b = {0};
        struct output_view v;
        output_look(o, RUN_MIXED, r->want.next, r->file.fd < 0, &v);
        output_put_numbers(&b, OUTPUT_AT, 0, (uint64_t[3]){r->at.of[0], r->at.of[1], o->run});
        size_t head = b.len;
        uint64_t before = r->want.next;
        if (output_view_read(&v, &r->file, &r->want, AGENT_PIECE_LEN, &b) ||
            r->want.next == before) {
            r->want.next = before; /* cut meanwhile: again, from where it goes on */
            output_file_close(&r->file);
            buf_release(&b);
            output_view_release(&v);
            break;
        }
        output_view_release(&v);
        count_records(r, (struct str){b.p + head, b.len - head});
        agent_send(r, AGENT_OUTPUT, &b);
    }
    if (!o->store) /* nothing but our memory has it: the command waits for the server */
        output_hold(o, &(struct output_at){{r->want.next - agent_unsent(r), 0}});
    if (r->run)
        run_resume(r->run);
    return r->want.next >= total;
}
