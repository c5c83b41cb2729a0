#include "task/request_log.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "drover.h"

enum { VERSION = 1, FIXED_LEN = 1 + 8 + 8 + 8 + 1 };

void request_log_release(struct request_log *m)
{
    for (uint32_t i = 0; i < REQUEST_LOG_MAX; i++)
        free(m->places[i]);
    map_release(&m->by_key);
    *m = (struct request_log){0};
}

static uint32_t hash_of(int64_t clientid, struct str id)
{
    return map_hash_str(id) ^ map_hash_u64((uint64_t)clientid);
}

static int64_t client_of(const struct request_log_entry *one)
{
    return (int64_t)le_load64(one->bytes + 9);
}

static struct str id_of(const struct request_log_entry *one)
{
    return (struct str){one->bytes + FIXED_LEN, (uint8_t)one->bytes[FIXED_LEN - 1]};
}

static const struct request_log_entry *find(const struct request_log *m,
                                            const struct request_key *key)
{
    uint32_t hash = hash_of(key->clientid, key->id);
    for (uint32_t at, ref = map_first(&m->by_key, hash, &at); ref;
         ref = map_next(&m->by_key, hash, &at)) {
        const struct request_log_entry *one = m->places[ref - 1];
        if (client_of(one) == key->clientid && str_eq(id_of(one), key->id))
            return one;
    }
    return NULL;
}

static struct task read_task(struct reader *r)
{
    struct task t = {.id = (int64_t)reader_u64(r)};
    t.timespec = (int64_t)reader_u64(r);
    size_t len = reader_u8(r);
    len |= (size_t)reader_u8(r) << 8;
    t.group = reader_bytes(r, len);
    return t;
}

int request_log_find(const struct request_log *m, const struct request_key *key, struct arena *a,
                     struct task **ret_tasks, size_t *ret_count)
{
    const struct request_log_entry *one = find(m, key);
    if (!one)
        return 0;
    if (le_load64(one->bytes + 17) != key->hash)
        return DROVER_BAD_ARGUMENT;
    struct reader r = {one->bytes, one->len, false};
    reader_bytes(&r, FIXED_LEN + key->id.len);
    size_t count = reader_u32(&r);
    struct task *tasks = arena_alloc(a, (count + 1) * sizeof *tasks);
    for (size_t i = 0; i < count; i++) {
        tasks[i] = read_task(&r);
        tasks[i].ownerid = key->clientid;
        tasks[i].group.p = arena_text(a, tasks[i].group);
    }
    *ret_tasks = tasks;
    *ret_count = count;
    return 1;
}

static void encode(struct buf *b, uint64_t number, const struct request_key *key,
                   const struct task *tasks, size_t count)
{
    buf_put_u8(b, VERSION);
    buf_put_u64(b, number);
    buf_put_u64(b, (uint64_t)key->clientid);
    buf_put_u64(b, key->hash);
    buf_put_u8(b, (uint8_t)key->id.len);
    buf_put_str(b, key->id);
    buf_put_u32(b, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        buf_put_u64(b, (uint64_t)tasks[i].id);
        buf_put_u64(b, (uint64_t)tasks[i].timespec);
        buf_put_u8(b, (uint8_t)tasks[i].group.len);
        buf_put_u8(b, (uint8_t)(tasks[i].group.len >> 8));
        buf_put_str(b, tasks[i].group);
    }
}

static void forget(struct request_log *m, struct request_log_entry *one)
{
    map_remove(&m->by_key, one->hash, one->place + 1);
    m->places[one->place] = NULL;
}

static void keep(struct request_log *m, struct request_log_entry *one)
{
    m->places[one->place] = one;
    map_add(&m->by_key, one->hash, one->place + 1);
}

static struct request_log_entry *keep_new(struct request_log *m, uint32_t place, struct str bytes)
{
    struct request_log_entry *one = mem_alloc(sizeof *one + bytes.len);
    one->len = bytes.len;
    one->place = place;
    memcpy(one->bytes, bytes.p, bytes.len);
    one->hash = hash_of(client_of(one), id_of(one));
    keep(m, one);
    return one;
}

const struct request_log_entry *request_log_put(struct request_log *m,
                                                const struct request_key *key,
                                                const struct task *tasks, size_t count,
                                                struct request_log_entry **ret_before)
{
    CLEANUP(buf_release) struct buf b = {0};
    encode(&b, m->next, key, tasks, count);
    uint32_t place = (uint32_t)(m->next++ % REQUEST_LOG_MAX);
    *ret_before = m->places[place];
    if (*ret_before)
        forget(m, *ret_before);
    return keep_new(m, place, buf_str(&b));
}

void request_log_undo(struct request_log *m, struct request_log_entry *before)
{
    struct request_log_entry *last = m->places[--m->next % REQUEST_LOG_MAX];
    forget(m, last);
    free(last);
    if (before)
        keep(m, before);
}

/* Validates the bytes. */
static int check(struct str bytes)
{
    struct reader r = {bytes.p, bytes.len, false};
    if (bytes.len && (unsigned char)bytes.p[0] > VERSION)
        return DROVER_NEWER_VERSION;
    if (reader_u8(&r) != VERSION)
        return DROVER_DAMAGED;
    reader_bytes(&r, 24);
    reader_bytes(&r, reader_u8(&r));
    uint32_t count = reader_u32(&r);
    for (uint32_t i = 0; !r.bad && i < count; i++)
        read_task(&r);
    return r.bad || r.left ? DROVER_DAMAGED : 0;
}

int request_log_restore(struct request_log *m, uint32_t place, struct str bytes)
{
    TRY(check(bytes));
    uint64_t number = le_load64(bytes.p + 1);
    if (place >= REQUEST_LOG_MAX || number % REQUEST_LOG_MAX != place || m->places[place])
        return DROVER_DAMAGED;
    keep_new(m, place, bytes);
    if (number >= m->next)
        m->next = number + 1;
    return 0;
}
