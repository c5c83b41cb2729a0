/* Members are written in the order of the specification, then those that a foreign client added. */
#include "batch/status.h"

static const char *const MEMBERS[] = {
    "status",
    "last_successful_status",
    "last_modification_date",
    "last_modified",
    "retry_count",
    "message",
    NULL,
};

/* The first 100 bytes for a message; bytes that are not printable ASCII become "?". */
static const char *excerpt(struct arena *a, struct str text)
{
    char *out = arena_text(a, (struct str){text.p, text.len < 100 ? text.len : 100});

    for (size_t i = 0; i < text.len && i < 100; i++)
        if (out[i] < ' ' || out[i] > '~')
            out[i] = '?';
    return out;
}

int batch_status_read(const struct batch_machine *m, struct arena *a, struct str text,
                      struct batch_status *ret_status, struct err_info *ret_error)
{
    struct batch_status s = {.last_successful = BATCH_NO_STATE};
    struct str name = {0}, last = {0};
    struct err_info why;

    s.json = json_parse(a, text, &why);
    if (!s.json || s.json->kind != JSON_OBJECT ||
        json_get_text(s.json, "status", &name, &why) <= 0 ||
        json_get_text(s.json, "last_successful_status", &last, &why) < 0 ||
        json_get_text(s.json, m->is_job ? "last_modification_date" : "last_modified", &s.modified,
                      &why) < 0 ||
        json_get_text(s.json, "message", &s.message, &why) < 0 ||
        json_get_int(s.json, "retry_count", &s.retry_count, &why) < 0)
        return err_set(ret_error, DROVER_DAMAGED, "its status is not valid: %s", excerpt(a, text));
    s.state = batch_machine_find(m, name);
    if (s.state == BATCH_NO_STATE)
        return err_set(ret_error, DROVER_DAMAGED,
                       "its status is '%s', which is not a state of a %s", excerpt(a, name),
                       m->noun);
    if (last.p)
        s.last_successful = batch_machine_find(m, last);
    *ret_status = s;
    return 0;
}

static bool is_known(struct str name)
{
    for (int i = 0; MEMBERS[i]; i++)
        if (str_eq(name, str_of(MEMBERS[i])))
            return true;
    return false;
}

bool batch_status_is_plain(const struct batch_status *s)
{
    if (s->json)
        json_each(v, s->json)
            if (!is_known(v->key))
                return false;
    return true;
}

struct str batch_status_write(const struct batch_machine *m, const struct batch_status *s,
                              struct arena *a)
{
    struct buf b = {0};

    json_open(&b, '{');
    json_member_text(&b, "status", str_of(m->states[s->state].name));
    if (m->is_job) {
        json_key(&b, "last_successful_status");
        if (s->last_successful == BATCH_NO_STATE)
            json_put_null(&b);
        else
            json_put_text(&b, str_of(m->states[s->last_successful].name));
    }
    json_member_text(&b, m->is_job ? "last_modification_date" : "last_modified", s->modified);
    if (m->is_job) {
        json_member_int(&b, "retry_count", s->retry_count);
    }
    if (s->message.p) {
        json_member_text(&b, "message", s->message);
    }
    if (s->json)
        json_each(v, s->json)
            if (!is_known(v->key)) {
                json_key_str(&b, v->key);
                json_put(&b, v);
            }
    json_close(&b, '}');
    return batch_text(a, &b);
}

struct str batch_text(struct arena *a, struct buf *b)
{
    struct str text = {arena_text(a, buf_str(b)), b->len};

    buf_release(b);
    return text;
}
