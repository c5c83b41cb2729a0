/*
 * GET /v1/machines: the states, for consoles and commands that do not know the pipeline of the
 * site.
 */
#include "batch/server.h"

static void put_machine(struct buf *b, const char *key, const struct batch_machine *m)
{
    json_key(b, key);
    json_open(b, '{');
    json_key(b, "first");
    json_put_text(b, str_of(m->states[m->first].name));
    json_key(b, "states");
    json_open(b, '[');
    for (int i = 0; i < m->count; i++) {
        const struct batch_machine_state *s = &m->states[i];

        json_open(b, '{');
        json_key(b, "name");
        json_put_text(b, str_of(s->name));
        json_key(b, "to");
        json_open(b, '[');
        for (int to = 0; to < m->count; to++)
            if (batch_machine_allows(m, i, to))
                json_put_text(b, str_of(m->states[to].name));
        json_close(b, ']');
        for (int way = 0; way < 2; way++) {
            int to = way ? s->fail : s->success;

            if (to == BATCH_NO_STATE)
                continue;
            json_key(b, way ? "fail" : "success");
            json_put_text(b, str_of(m->states[to].name));
        }
        json_key(b, "end");
        json_put_bool(b, batch_machine_is_final(m, i));
        json_key(b, "batch");
        json_put_text(b, str_of(BATCH_LISTS[s->list]));
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
}

void get_machines(struct http_request *r)
{
    const struct batch_server *h = r->arg;
    struct buf b = {0};

    json_open(&b, '{');
    put_machine(&b, "batch", &h->machines.batch);
    put_machine(&b, "job", &h->machines.job);
    put_machine(&b, "access", &h->machines.access);
    json_close(&b, '}');
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}
