/*
 * Formats paths without printf: they are made for every change, and printf takes longer than the
 * change.
 */
#include "task/task_node.h"

#include <string.h>

#include "drover.h"

enum { VERSION = 1, VERSION_MANAGED = 2, DIGITS_MAX = 19 };

static size_t put_number(char *at, int64_t number)
{
    char digits[DIGITS_MAX];
    size_t len = 0;
    do
        digits[DIGITS_MAX - ++len] = (char)('0' + number % 10);
    while (number /= 10);
    memcpy(at, digits + DIGITS_MAX - len, len);
    return len;
}

size_t task_node_bucket_path(char path[TASK_NODE_PATH_SIZE], int64_t bucket)
{
    size_t len = sizeof TASK_NODE_HEAD;
    memcpy(path, TASK_NODE_HEAD "/", len);
    len += put_number(path + len, bucket);
    path[len] = '\0';
    return len;
}

size_t task_node_path(char path[TASK_NODE_PATH_SIZE], int64_t slot)
{
    size_t len = task_node_bucket_path(path, task_node_bucket(slot));
    path[len++] = '/';
    len += put_number(path + len, slot);
    path[len] = '\0';
    return len;
}

int64_t task_node_number(const char *name)
{
    size_t len = strlen(name);
    int64_t number = 0;
    if (!len || len >= DIGITS_MAX || (name[0] == '0' && len > 1))
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -1;
        number = number * 10 + (name[i] - '0');
    }
    return number;
}

void task_node_encode(const struct task *t, char *bytes)
{
    bytes[0] = t->managed ? VERSION_MANAGED : VERSION;
    le_store64(bytes + 1, (uint64_t)t->id);
    le_store64(bytes + 9, (uint64_t)t->timespec);
    le_store64(bytes + 17, (uint64_t)t->ownerid);
    bytes[25] = (char)(t->group.len & 0xff);
    bytes[26] = (char)(t->group.len >> 8);
    memcpy(bytes + TASK_NODE_OVERHEAD, t->group.p, t->group.len);
    if (t->data.len)
        memcpy(bytes + TASK_NODE_OVERHEAD + t->group.len, t->data.p, t->data.len);
}

int task_node_decode(struct str bytes, struct task *ret_task)
{
    struct reader r = {bytes.p, bytes.len, false};
    struct task t;
    int version = reader_u8(&r);
    if (version > VERSION_MANAGED)
        return DROVER_NEWER_VERSION;
    t.managed = version == VERSION_MANAGED;
    t.id = (int64_t)reader_u64(&r);
    t.timespec = (int64_t)reader_u64(&r);
    t.ownerid = (int64_t)reader_u64(&r);
    size_t group_len = reader_u8(&r);
    group_len |= (size_t)reader_u8(&r) << 8;
    t.group = reader_bytes(&r, group_len);
    t.data = (struct str){r.p, r.left};
    if (r.bad || version < VERSION || t.id <= 0 || !group_len)
        return DROVER_DAMAGED;
    *ret_task = t;
    return 0;
}

void task_node_head_encode(const struct task_node_head *h, char bytes[TASK_NODE_HEAD_LEN])
{
    bytes[0] = VERSION;
    le_store64(bytes + 1, (uint64_t)h->last_id);
    le_store64(bytes + 9, h->tag);
}

int task_node_head_decode(struct str bytes, struct task_node_head *ret_head)
{
    if (bytes.len && (unsigned char)bytes.p[0] > VERSION)
        return DROVER_NEWER_VERSION;
    if (bytes.len != TASK_NODE_HEAD_LEN || bytes.p[0] != VERSION)
        return DROVER_DAMAGED;
    *ret_head = (struct task_node_head){(int64_t)le_load64(bytes.p + 1), le_load64(bytes.p + 9)};
    return ret_head->last_id < 0 ? DROVER_DAMAGED : 0;
}
