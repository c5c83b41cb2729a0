/* The URL of an ensemble: zk://host:port,.../chroot, or zks:// with TLS. */
#include "keeper/path.h"
#include "keeper/zookeeper/zookeeper_impl.h"

static const struct {
    const char *scheme;
    long port;
} SCHEMES[] = {
    {"zk://", ZOOKEEPER_PORT},
    {"zks://", ZOOKEEPER_TLS_PORT},
};

/* host, host:port, [address] or [address]:port */
static int host_put(struct buf *name, struct str host, long port, const char *url,
                    struct err_info *e)
{
    const char *end = host.p + host.len, *colon;
    struct str part = host;

    if (host.len && host.p[0] == '[') {
        const char *close = memchr(host.p, ']', host.len);
        if (!close)
            return err_set(e, DROVER_BAD_ARGUMENT, "%s: a [ without its ]", url);
        part = (struct str){host.p + 1, (size_t)(close - host.p) - 1};
        colon = close + 1 < end ? close + 1 : NULL;
    } else if ((colon = memrchr(host.p, ':', host.len))) {
        part.len = (size_t)(colon - host.p);
    }
    if (colon) {
        port = *colon == ':' ? 0 : 65536;
        for (const char *p = colon + 1; p < end && port <= 65535; p++)
            port = *p >= '0' && *p <= '9' ? port * 10 + *p - '0' : 65536;
    }
    if (!part.len)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: a host is missing", url);
    if (port < 1 || port > 65535)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: '%.*s' is not host:port", url, STR_ARGS(host));
    buf_printf(name, "%.*s:%ld", STR_ARGS(part), port);
    return 0;
}

int zk_url_parse(const char *url, struct buf *ret_name, struct str *ret_chroot, struct err_info *e)
{
    size_t i = 0, count = sizeof SCHEMES / sizeof *SCHEMES;
    while (i < count && !str_starts(str_of(url), str_of(SCHEMES[i].scheme)))
        i++;
    if (i == count)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "%s: not of the form zk://host:port,.../chroot, or zks://", url);
    const char *at = zk_url_hosts(url), *end = at + strcspn(at, "/");
    if (memchr(at, '@', (size_t)(end - at)))
        return err_set(e, DROVER_BAD_ARGUMENT, "a %s URL with an @: credentials do not go there",
                       SCHEMES[i].scheme);
    struct str chroot = str_of(end);
    if (chroot.len == 1)
        chroot.len = 0;
    if (chroot.len && !path_is_valid(chroot, false))
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: '%s' is not a path", url, end);
    buf_put_str(ret_name, str_of(SCHEMES[i].scheme));
    for (size_t len; at <= end; at += len + 1) {
        len = strcspn(at, ",/");
        TRY(host_put(ret_name, (struct str){at, len}, SCHEMES[i].port, url, e));
        if (at + len < end)
            buf_put_str(ret_name, STR(","));
    }
    *ret_chroot = chroot;
    return 0;
}

bool zk_url_is_tls(const char *name)
{
    return str_starts(str_of(name), STR("zks://"));
}

const char *zk_url_hosts(const char *name)
{
    return strstr(name, "://") + 3;
}

int zookeeper_check_url(const char *url, const struct zookeeper_tls *tls,
                        struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf name = {0};
    struct str chroot;
    TRY(zk_url_parse(url, &name, &chroot, ret_error));
    if (!tls)
        return 0;
    if (!zk_url_is_tls(url) && (tls->ca || tls->cert || tls->key))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s: certificates and authorities go with zks://", url);
    if (tls->key && !tls->cert)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s: a key needs its certificate", url);
    return 0;
}
