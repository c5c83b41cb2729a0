#include "keeper/acl.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "keeper/jute.h"

const struct str ACL_OPEN_LIST = {"\0\0\0\1\0\0\0\37\0\0\0\5world\0\0\0\6anyone", 27};

struct acl_entry {
    char *list; /* NULL: this number is free */
    uint32_t len;
    uint32_t users; /* of a free one: the next free one */
};

/* One entry of a list. */
struct acl_item {
    uint32_t permissions;
    struct acl_id id;
};

static struct acl_item next_item(struct reader *r)
{
    struct acl_item i = {.permissions = (uint32_t)jute_i32(r)};
    i.id.scheme = jute_data(r);
    i.id.id = jute_data(r);
    return i;
}

bool acl_list_is_valid(struct str list)
{
    struct reader r = {list.p, list.len, list.len > ACL_LIST_MAX};
    uint32_t count = (uint32_t)jute_i32(&r);
    if (!count)
        return false;
    for (uint32_t i = 0; i < count && !r.bad; i++)
        next_item(&r);
    return !r.bad && !r.left;
}

/* address/bits of either family; without bits, the whole address. */
static bool parse_network(struct str text, unsigned char *ret_bytes, unsigned *ret_len,
                          unsigned *ret_bits)
{
    char copy[64], *end;
    if (text.len >= sizeof copy)
        return false;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    char *slash = strchr(copy, '/');
    if (slash)
        *slash = '\0';
    *ret_len = strchr(copy, ':') ? 16 : 4;
    if (inet_pton(*ret_len == 16 ? AF_INET6 : AF_INET, copy, ret_bytes) != 1)
        return false;
    unsigned long bits = slash ? strtoul(slash + 1, &end, 10) : *ret_len * 8;
    if (slash && (slash[1] < '0' || slash[1] > '9' || end != copy + text.len))
        return false;
    *ret_bits = (unsigned)bits;
    return bits <= *ret_len * 8;
}

static bool network_has(struct str network, struct str address)
{
    unsigned char a[16], b[16];
    unsigned a_len, b_len, bits, all;
    if (!parse_network(network, a, &a_len, &bits) || !parse_network(address, b, &b_len, &all) ||
        a_len != b_len)
        return false;
    for (unsigned i = 0; i < bits; i++)
        if ((a[i / 8] ^ b[i / 8]) & 0x80 >> i % 8)
            return false;
    return true;
}

static bool is_world(struct acl_id id)
{
    return str_eq(id.scheme, STR("world")) && str_eq(id.id, STR("anyone"));
}

static bool matches(struct acl_id wanted, struct acl_id have)
{
    if (!str_eq(wanted.scheme, have.scheme))
        return false;
    if (str_eq(wanted.scheme, STR("ip")))
        return network_has(wanted.id, have.id);
    return str_eq(wanted.id, have.id);
}

static bool is_known_as(const struct acl_who *who, struct acl_id wanted)
{
    for (size_t i = 0; i < who->count; i++)
        if (matches(wanted, who->ids[i]))
            return true;
    return is_world(wanted);
}

bool acl_allows(struct str list, int permission, const struct acl_who *who)
{
    struct reader r = {list.p, list.len, false};
    if (!who || who->all || list.p == ACL_OPEN_LIST.p)
        return true;
    uint32_t count = (uint32_t)jute_i32(&r);
    for (uint32_t i = 0; i < count && !r.bad; i++) {
        struct acl_item item = next_item(&r);
        if (item.permissions & (uint32_t)permission && is_known_as(who, item.id))
            return true;
    }
    return false;
}

static void put_entry(struct buf *b, uint32_t permissions, struct acl_id id)
{
    jute_put_i32(b, (int32_t)permissions);
    jute_put_bytes(b, id.scheme);
    jute_put_bytes(b, id.id);
}

/* Whether the list has an equal entry before `end`. */
static bool is_duplicate(struct str list, const char *end, struct acl_item item)
{
    struct reader r = {list.p + 4, (size_t)(end - list.p - 4), false};
    while (r.left) {
        struct acl_item there = next_item(&r);
        if (there.permissions == item.permissions && str_eq(there.id.scheme, item.id.scheme) &&
            str_eq(there.id.id, item.id.id) && !there.id.id.p == !item.id.id.p)
            return true;
    }
    return false;
}

/* Two parts with a colon between them, the second not empty. Trailing colons do not count. */
static bool digest_is_valid(struct str id)
{
    while (id.len && id.p[id.len - 1] == ':')
        id.len--;
    const char *colon = id.len ? memchr(id.p, ':', id.len) : NULL;
    return colon && !memchr(colon + 1, ':', id.len - (size_t)(colon + 1 - id.p));
}

/* The subject of a certificate: "CN=worker,O=Example". ZooKeeper parses it, too. */
static bool subject_is_valid(struct str id)
{
    const char *equals = id.len ? memchr(id.p, '=', id.len) : NULL;
    return equals && equals != id.p;
}

/* 0 or BAD_ACL; DAMAGED for a null id where ZooKeeper has none for it. */
static int check_id(struct acl_id id, const struct acl_who *who)
{
    unsigned char bytes[16];
    unsigned len, bits;
    bool digest = str_eq(id.scheme, STR("digest")) && !(who && who->no_digest);
    bool ip = str_eq(id.scheme, STR("ip"));
    if (!id.id.p && (digest || ip || str_eq(id.scheme, STR("world"))))
        return DROVER_DAMAGED;
    bool x509 = who && who->x509 && str_eq(id.scheme, STR("x509"));
    bool valid = digest ? digest_is_valid(id.id)
                 : ip   ? parse_network(id.id, bytes, &len, &bits)
                 : x509 ? subject_is_valid(id.id)
                        : is_world(id);
    return valid ? 0 : DROVER_BAD_ACL;
}

static int resolve_auth(struct buf *b, uint32_t *count, struct acl_item item,
                        const struct acl_who *who)
{
    bool any = false;
    for (size_t i = 0; who && i < who->count; i++) {
        if (!str_eq(who->ids[i].scheme, STR("digest")) && !str_eq(who->ids[i].scheme, STR("x509")))
            continue;
        put_entry(b, item.permissions, who->ids[i]);
        ++*count;
        any = true;
    }
    return any ? 0 : DROVER_BAD_ACL;
}

int acl_resolve(struct str list, const struct acl_who *who, struct buf *ret_list)
{
    struct reader r = {list.p, list.len, false};
    uint32_t count = 0;
    if (!acl_list_is_valid(list))
        return DROVER_BAD_ACL;
    ret_list->len = 0;
    jute_put_i32(ret_list, 0);
    for (uint32_t left = (uint32_t)jute_i32(&r); left; left--) {
        const char *start = r.p;
        struct acl_item item = next_item(&r);
        if (is_duplicate(list, start, item))
            continue;
        if (str_eq(item.id.scheme, STR("auth"))) {
            TRY(resolve_auth(ret_list, &count, item, who));
        } else {
            TRY(check_id(item.id, who));
            put_entry(ret_list, item.permissions, item.id);
            count++;
        }
        if (ret_list->len > ACL_LIST_MAX)
            return DROVER_BAD_ACL;
    }
    jute_store_i32(ret_list->p, (int32_t)count);
    return 0;
}

void acl_put_masked(struct buf *b, struct str list)
{
    struct reader r = {list.p, list.len, false};
    CLEANUP(buf_release) struct buf masked = {0};
    int32_t count = jute_i32(&r);
    jute_put_i32(b, count);
    for (int32_t i = 0; i < count && !r.bad; i++) {
        struct acl_item item = next_item(&r);
        const char *colon = item.id.id.len ? memchr(item.id.id.p, ':', item.id.id.len) : NULL;
        if (str_eq(item.id.scheme, STR("digest")) && colon) {
            masked.len = 0;
            buf_put(&masked, item.id.id.p, (size_t)(colon - item.id.id.p));
            buf_put_str(&masked, STR(":x"));
            item.id.id = buf_str(&masked);
        }
        put_entry(b, item.permissions, item.id);
    }
}

void acl_table_release(struct acl_table *t)
{
    for (uint32_t i = 0; i < t->len; i++)
        free(t->entries[i].list);
    free(t->entries);
    map_release(&t->index);
    *t = (struct acl_table){0};
}

struct str acl_list(const struct acl_table *t, uint32_t number)
{
    if (number == ACL_OPEN)
        return ACL_OPEN_LIST;
    return (struct str){t->entries[number - 1].list, t->entries[number - 1].len};
}

static uint32_t add_list(struct acl_table *t, struct str list)
{
    uint32_t number = t->free;
    if (number) {
        t->free = t->entries[number - 1].users;
    } else {
        mem_grow(t->entries, t->len, t->cap);
        number = ++t->len;
    }
    t->entries[number - 1] =
        (struct acl_entry){.list = mem_dup(list.p, list.len), .len = (uint32_t)list.len};
    map_add(&t->index, map_hash_str(list), number);
    return number;
}

uint32_t acl_use(struct acl_table *t, struct str list)
{
    uint32_t hash = map_hash_str(list), at, ref;
    if (!list.len || str_eq(list, ACL_OPEN_LIST))
        return ACL_OPEN;
    for (ref = map_first(&t->index, hash, &at); ref && !str_eq(acl_list(t, ref), list);)
        ref = map_next(&t->index, hash, &at);
    if (!ref)
        ref = add_list(t, list);
    t->entries[ref - 1].users++;
    return ref;
}

void acl_drop(struct acl_table *t, uint32_t number)
{
    if (number == ACL_OPEN)
        return;
    struct acl_entry *e = &t->entries[number - 1];
    if (--e->users)
        return;
    map_remove(&t->index, map_hash_str((struct str){e->list, e->len}), number);
    free(e->list);
    *e = (struct acl_entry){.users = t->free};
    t->free = number;
}
