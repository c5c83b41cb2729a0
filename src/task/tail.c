/* Each member is a row: its kind and its place in struct task_extra. Its number is the tag. */
#include "task/tail.h"

#include <assert.h>
#include <stddef.h>

#include "drover.h"

enum member_kind { MEMBER_NUMBER, MEMBER_TIME, MEMBER_TEXT, MEMBER_FLAG };

static const struct {
    enum member_kind kind;
    size_t offset, max; /* max: bytes of a text */
} MEMBERS[] = {
    [1] = {MEMBER_NUMBER, offsetof(struct task_extra, priority), 0},
    [2] = {MEMBER_NUMBER, offsetof(struct task_extra, attempts), 0},
    [3] = {MEMBER_NUMBER, offsetof(struct task_extra, claims), 0},
    [4] = {MEMBER_NUMBER, offsetof(struct task_extra, unanswered), 0},
    [5] = {MEMBER_TIME, offsetof(struct task_extra, created), 0},
    [6] = {MEMBER_TIME, offsetof(struct task_extra, expires), 0},
    [7] = {MEMBER_TIME, offsetof(struct task_extra, ended), 0},
    [8] = {MEMBER_TEXT, offsetof(struct task_extra, key), TASK_KEY_LEN_MAX},
    [9] = {MEMBER_TEXT, offsetof(struct task_extra, share), TASK_SHARE_LEN_MAX},
    [10] = {MEMBER_TEXT, offsetof(struct task_extra, error), TASK_ERROR_LEN_MAX},
    [11] = {MEMBER_TEXT, offsetof(struct task_extra, origin), TASK_GROUP_LEN_MAX},
    [12] = {MEMBER_TEXT, offsetof(struct task_extra, result), TASK_RESULT_LEN_MAX},
    [13] = {MEMBER_FLAG, offsetof(struct task_extra, binary), 0},
};

enum { TAGS = sizeof MEMBERS / sizeof *MEMBERS, LENGTH_LEN = 4 };

static const void *member_of(const struct task_extra *x, size_t tag)
{
    return (const char *)x + MEMBERS[tag].offset;
}

/* Of the value, without the tag; 0: the member has its default and is left out. A flag has 1. */
static size_t value_len(const struct task_extra *x, size_t tag)
{
    const void *member = member_of(x, tag);
    switch (MEMBERS[tag].kind) {
    case MEMBER_NUMBER:
        return *(const uint32_t *)member ? 4 : 0;
    case MEMBER_TIME:
        return *(const int64_t *)member ? 8 : 0;
    case MEMBER_TEXT:
        return ((const struct str *)member)->len ? 4 + ((const struct str *)member)->len : 0;
    case MEMBER_FLAG:
        return *(const bool *)member;
    }
    return 0;
}

static size_t tail_len(const struct task_extra *x)
{
    size_t len = 0;
    for (size_t tag = 1; tag < TAGS; tag++) {
        size_t value = value_len(x, tag);
        if (value)
            len += 1 + (MEMBERS[tag].kind == MEMBER_FLAG ? 0 : value);
    }
    return len;
}

bool task_extra_is_plain(const struct task_extra *x)
{
    return !tail_len(x);
}

size_t task_payload_len(const struct task_extra *extra, struct str data)
{
    return data.len + (extra ? LENGTH_LEN + tail_len(extra) : 0);
}

static char *put_value(char *at, const struct task_extra *x, size_t tag)
{
    const void *member = member_of(x, tag);
    const struct str *text = member;
    switch (MEMBERS[tag].kind) {
    case MEMBER_NUMBER:
        le_store32(at, *(const uint32_t *)member);
        return at + 4;
    case MEMBER_TIME:
        le_store64(at, (uint64_t) * (const int64_t *)member);
        return at + 8;
    case MEMBER_TEXT:
        le_store32(at, (uint32_t)text->len);
        memcpy(at + 4, text->p, text->len);
        return at + 4 + text->len;
    case MEMBER_FLAG:
        break;
    }
    return at;
}

void task_payload_encode(const struct task_extra *extra, struct str data, char *bytes)
{
    if (extra) {
        char *at = bytes + LENGTH_LEN;
        for (size_t tag = 1; tag < TAGS; tag++) {
            if (!value_len(extra, tag))
                continue;
            *at++ = (char)tag;
            at = put_value(at, extra, tag);
        }
        le_store32(bytes, (uint32_t)(at - bytes - LENGTH_LEN));
        bytes = at;
    }
    if (data.len)
        memcpy(bytes, data.p, data.len);
}

static void read_value(struct reader *r, size_t tag, struct task_extra *x)
{
    void *member = (char *)x + MEMBERS[tag].offset;
    switch (MEMBERS[tag].kind) {
    case MEMBER_NUMBER:
        *(uint32_t *)member = reader_u32(r);
        break;
    case MEMBER_TIME:
        *(int64_t *)member = (int64_t)reader_u64(r);
        break;
    case MEMBER_TEXT:
        *(struct str *)member = reader_bytes(r, reader_u32(r));
        r->bad |= ((struct str *)member)->len > MEMBERS[tag].max;
        break;
    case MEMBER_FLAG:
        *(bool *)member = true;
        break;
    }
    r->bad |= !value_len(x, tag);
}

int task_payload_decode(struct str bytes, bool has_tail, struct task_extra *ret_extra,
                        struct str *ret_data)
{
    struct reader r = {bytes.p, bytes.len, false};
    struct task_extra x = {0};
    if (has_tail) {
        struct str tail = reader_bytes(&r, reader_u32(&r));
        struct reader members = {tail.p, tail.len, r.bad};
        for (size_t last = 0, tag; !members.bad && members.left; last = tag) {
            tag = reader_u8(&members);
            if (tag >= TAGS)
                return DROVER_NEWER_VERSION;
            if (tag <= last)
                return DROVER_DAMAGED;
            read_value(&members, tag, &x);
        }
        if (members.bad)
            return DROVER_DAMAGED;
    }
    *ret_extra = x;
    *ret_data = (struct str){r.p, r.left};
    return 0;
}
