/* Values that are to be kept: small ones in the record, large text in slots. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/dag_impl.h"

void dag_append_slot(struct dag *d, struct node *n, struct value *v, struct str text)
{
    struct turn *t = turn_open(d);
    char path[DAG_PATH_LEN];

    v->slots = mem_realloc(v->slots, (v->slot_count + 1) * sizeof *v->slots);
    v->slots[v->slot_count++] = (struct slot){n->next_slot, (uint32_t)text.len};
    v->len += text.len;
    turn_bucket(t, BUCKET_SLOTS, dag_bucket(BUCKET_SLOTS, n->id));
    dag_slot_path(path, sizeof path, n->id, n->next_slot++);
    turn_op(t, keeper_op_create(path, text, 0));
}

void dag_keep_value(struct dag *d, struct node *n, struct value *v, dag_done_fn *done, void *arg)
{
    struct turn *t;

    if (v->is_text && v->bytes.len > NODE_TEXT_INLINE_MAX) {
        struct buf text = v->bytes;

        v->bytes = (struct buf){0};
        v->len = 0;
        for (size_t at = 0; at < text.len; at += NODE_SLOT_LEN) {
            size_t len = text.len - at < NODE_SLOT_LEN ? text.len - at : NODE_SLOT_LEN;

            dag_append_slot(d, n, v, (struct str){text.p + at, len});
        }
        buf_release(&text);
    }
    t = turn_open(d);
    turn_record(t, n);
    turn_then(t, done, arg);
}
