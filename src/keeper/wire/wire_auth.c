/*
 * Who a connection is: its identities for access lists, from its address and its auth requests.
 *
 * The id of a digest is "user:" and the base64 of a sum of "user:password". The superuser is known
 * by such an id, which the operator gives; as in ZooKeeper its client has it as a digest too, and
 * "super" besides, which no access list can name.
 */
#include <stdlib.h>

#include "base/base64.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/sha1.h"
#include "base/sha2.h"
#include "base/sha3.h"
#include "keeper/wire/wire_impl.h"

enum { SUM_MAX = SHA512_LEN, SUPER_MAX = 1024 };

static const struct {
    const char *name;
    size_t len;
    void (*sum)(struct str text, unsigned char *ret_sum);
} DIGESTS[] = {
    [WIRE_SHA1] = {"SHA1", SHA1_LEN, sha1},
    [WIRE_SHA256] = {"SHA-256", SHA256_LEN, sha256},
    [WIRE_SHA512] = {"SHA-512", SHA512_LEN, sha512},
    [WIRE_SHA3_256] = {"SHA3-256", SHA3_256_LEN, sha3_256},
};

/* The characters of the base64 of a sum: four for three bytes, with padding. */
static size_t base64_len(size_t len)
{
    return (len + 2) / 3 * 4;
}

int wire_read_super(const struct wire_options *o, char **ret_super, struct err_info *ret_error)
{
    char line[SUPER_MAX];
    size_t len = base64_len(DIGESTS[o->digest].len);
    TRY(secret_read(o->super_file, line, sizeof line, ret_error));
    char *colon = strchr(line, ':');
    if (!colon || colon == line || strlen(colon + 1) != len || colon[len] != '=' ||
        strspn(colon + 1, BASE64_DIGITS "=") != len)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s does not hold user:DIGEST, where DIGEST is the base64 of the %s of "
                       "user:password, %zu characters",
                       o->super_file, DIGESTS[o->digest].name, len);
    *ret_super = mem_dup(line, strlen(line));
    return 0;
}

/* Without a colon all of it is the user. */
static bool digest_id(const struct wire_options *o, struct str credential, struct buf *id)
{
    const char *colon = credential.len ? memchr(credential.p, ':', credential.len) : NULL;
    unsigned char sum[SUM_MAX];
    if (o->digest == WIRE_NO_DIGEST || credential.len > WIRE_CREDENTIAL_MAX)
        return false;
    DIGESTS[o->digest].sum(credential, sum);
    buf_put(id, credential.p, colon ? (size_t)(colon - credential.p) : credential.len);
    buf_put_u8(id, ':');
    base64_put(id, sum, DIGESTS[o->digest].len);
    return true;
}

bool wire_add_id(struct wire_conn *c, struct str scheme, struct str id)
{
    for (size_t i = 0; i < c->who.count; i++)
        if (str_eq(c->ids[i].scheme, scheme) && str_eq(c->ids[i].id, id))
            return true;
    if (c->who.count == WIRE_IDS_MAX)
        return false;
    c->ids[c->who.count++] = (struct acl_id){scheme, {mem_dup(id.p, id.len), id.len}};
    return true;
}

static bool add_digest(struct wire_conn *c, struct str id)
{
    const char *super = c->w->super;
    if (super && str_eq(id, str_of(super)) && wire_add_id(c, STR("super"), STR("")))
        c->who.all = c->is_super = true;
    c->roles_known = false;
    return wire_add_id(c, STR("digest"), id);
}

/* The address is known already: ip always succeeds. */
void wire_auth(struct wire_conn *c, struct wire_request *q)
{
    jute_i32(&q->r); /* the type, which nobody uses */
    struct str scheme = jute_bytes(&q->r), credential = jute_data(&q->r);
    CLEANUP(buf_release) struct buf id = {0};
    bool known = str_eq(scheme, STR("ip"));
    q->no_zxid = true;
    if (str_eq(scheme, STR("digest")) && credential.p && digest_id(&c->w->o, credential, &id))
        known = add_digest(c, buf_str(&id));
    if (known && id.len)
        wire_take_token(c, credential);
    if (known || q->r.bad)
        return;
    q->error = WIRE_AUTH_FAILED;
    wire_conn_finish(c);
}

/*
 * The answer of a ZooKeeper that has no SASL: no error and no token. Clients take that as a failed
 * authentication, and do not try again.
 */
void wire_sasl(struct wire_conn *c, struct wire_request *q)
{
    struct str token = jute_data(&q->r);
    q->r.bad |= !token.p;
    q->no_zxid = true;
    jute_put_bytes(&c->w->body, (struct str){0});
}

bool wire_may_ask(const struct wire_conn *c, int type)
{
    if (type == WIRE_AUTH || type == WIRE_SASL)
        return true;
    for (size_t i = 0; i < c->who.count; i++)
        if (str_eq(c->ids[i].scheme, STR("digest")))
            return true;
    return false;
}

void wire_who_am_i(struct wire_conn *c, struct wire_request *q)
{
    (void)q;
    jute_put_i32(&c->w->body, (int32_t)c->who.count);
    for (size_t i = 0; i < c->who.count; i++) {
        struct str scheme = c->ids[i].scheme, user = c->ids[i].id;
        const char *colon = memchr(user.p, ':', user.len);
        if (str_eq(scheme, STR("digest")) && colon)
            user.len = (size_t)(colon - user.p);
        jute_put_bytes(&c->w->body, scheme);
        jute_put_bytes(&c->w->body, user);
    }
}
