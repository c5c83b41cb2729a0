#include "server/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "http/metrics.h"
#include "keeper/wire/wire.h"

enum { TARGET_LEN_MAX = 256, FROM_SIZE = 96 };

static const struct {
    const char *label, *message;
} REASONS[HTTP_REFUSALS] = {
    [HTTP_REFUSED_TOKEN] = {"token", "the token is missing or wrong"},
    [HTTP_REFUSED_ROLE] = {"role", "the role is missing"},
    [HTTP_REFUSED_LIMIT] = {"limit", "the request is beyond its limits"},
};

/* Refusals of an address since the last time that they were reported. */
struct address_refusals {
    char address[FROM_SIZE]; /* without port; of a Unix socket, the user */
    uint64_t counts[HTTP_REFUSALS];
};

struct audit {
    pthread_mutex_t lock;
    char *path; /* NULL: no file */
    int fd;
    bool torn;    /* the file may end in the middle of a line */
    bool failing; /* the last write failed */
    atomic_uint_fast64_t requests;
    struct counter *refusals[HTTP_REFUSALS], *lost;
    uv_timer_t timer;
    uv_signal_t hangup; /* if there is a file */
    struct address_refusals addresses[AUDIT_ADDRESSES_MAX];
    size_t address_count;
    uint64_t others; /* of addresses that found no place */
};

/* The file. */

/*
 * Only a regular file, or a device such as /dev/null: a pipe whose reader stands still would stop
 * the server. A link is not followed: its owner would choose what is written to.
 */
static int open_file(const char *path, int *ret_fd, struct err_info *ret_error)
{
    struct stat st;
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, flags, 0600);
    if (fd < 0)
        return err_set_errno(ret_error, errno, "cannot open the audit log %s", path);
    if (fstat(fd, &st) || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))) {
        close(fd);
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the audit log %s is not a file", path);
    }
    *ret_fd = fd;
    return 0;
}

/* With the lock held. One write: lines of several threads do not mix. */
static bool write_lines(struct audit *a, struct buf *lines)
{
    CLEANUP(buf_release) struct buf ended = {0};
    if (a->torn) {
        buf_put(&ended, "\n", 1);
        buf_put(&ended, lines->p, lines->len);
    }
    const struct buf *b = a->torn ? &ended : lines;
    ssize_t written = write(a->fd, b->p, b->len);
    bool whole = written == (ssize_t)b->len;
    int errnum = written < 0 ? errno : ENOSPC;
    if (whole)
        a->torn = false;
    else if (written > 0)
        a->torn = true;
    if (!whole && !a->failing)
        log_error("cannot write the audit log %s: %s; changes of rights and commands are refused "
                  "until it can be written",
                  a->path, strerror(errnum));
    if (whole && a->failing)
        log_info("the audit log %s can be written again", a->path);
    a->failing = !whole;
    return whole;
}

int audit_append(struct audit *a, struct buf *lines)
{
    if (!audit_has_file(a) || !lines->len)
        return 0;
    LOCKED(&a->lock);
    bool whole = write_lines(a, lines);
    lines->len = 0;
    if (whole)
        return 0;
    counter_add(a->lost, 1);
    return DROVER_IO;
}

bool audit_has_file(const struct audit *a)
{
    return a && a->path;
}

int audit_reopen(struct audit *a, struct err_info *ret_error)
{
    int fd;
    if (!audit_has_file(a))
        return 0;
    TRY(open_file(a->path, &fd, ret_error));
    pthread_mutex_lock(&a->lock);
    close(a->fd);
    a->fd = fd;
    a->torn = false;
    pthread_mutex_unlock(&a->lock);
    int err = audit_note(a, &(struct audit_event){.who = "server", .from = "", .action = "reopen"});
    return err ? err_set(ret_error, err, "cannot write the audit log %s", a->path) : 0;
}

/* Lines. */

struct line_head {
    uint64_t request; /* 0: none */
    const char *who, *from, *action;
    struct str target;
};

static void put_head(struct buf *b, const struct line_head *h)
{
    char seconds[HUMAN_SIZE];
    int64_t now_ms = clock_wall_ms();
    buf_printf(b, "{\"time\":\"%s.%03dZ\"", human_utc(seconds, now_ms), (int)(now_ms % 1000));
    if (h->request)
        json_member_int(b, "request", (int64_t)h->request);
    json_member_text(b, "who", str_of(h->who));
    json_member_text(b, "from", str_of(h->from));
    json_member_text(b, "action", str_of(h->action));
    json_member_text(
        b, "target",
        (struct str){h->target.p, h->target.len < TARGET_LEN_MAX ? h->target.len : TARGET_LEN_MAX});
}

/* "127.0.0.1:40112" or "unix uid 1000 pid 4711" */
static void put_from(char ret_from[FROM_SIZE], const struct http_peer *peer)
{
    if (peer->is_unix)
        snprintf(ret_from, FROM_SIZE, "unix uid %d pid %d", (int)peer->user, (int)peer->pid);
    else
        snprintf(ret_from, FROM_SIZE, "%s", peer->address);
}

static void put_request(struct buf *b, const struct http_request *r, uint64_t number)
{
    char from[FROM_SIZE];
    put_from(from, &r->peer);
    struct line_head h = {number, r->who ? r->who->name : "unknown", from, http_action(r),
                          r->head.path};
    put_head(b, &h);
}

void audit_open_line(struct audit *a, struct http_request *r, struct buf *lines)
{
    if (!r->audit)
        r->audit = ++a->requests;
    put_request(lines, r, r->audit);
    json_member_text(lines, "stage", STR("begin"));
}

/* Not in the middle of a character. */
void audit_put_text(struct buf *lines, const char *name, struct str text)
{
    char whole[64];
    size_t len = text.len;
    if (len > AUDIT_TEXT_LEN_MAX) {
        len = AUDIT_TEXT_LEN_MAX;
        while (len && ((unsigned char)text.p[len] & 0xc0) == 0x80)
            len--;
    }
    json_member_text(lines, name, (struct str){text.p, len});
    if (len == text.len)
        return;
    snprintf(whole, sizeof whole, "%s_len", name);
    json_member_int(lines, whole, (int64_t)text.len);
}

void audit_close_line(struct buf *lines)
{
    buf_put_str(lines, STR("}\n"));
}

void audit_refuse(struct http_request *r)
{
    http_reply_error(r, 503, "the audit log cannot be written, so this was not done");
}

bool audit_begin(struct audit *a, struct http_request *r, struct buf *lines_or_null)
{
    CLEANUP(buf_release) struct buf plain = {0};
    struct buf *lines = lines_or_null ? lines_or_null : &plain;
    if (!audit_has_file(a))
        return true;
    if (!lines_or_null) {
        audit_open_line(a, r, lines);
        audit_close_line(lines);
    }
    if (!audit_append(a, lines))
        return true;
    audit_refuse(r);
    return false;
}

void audit_answered(void *audit, const struct http_request *r, int status)
{
    CLEANUP(buf_release) struct buf line = {0};
    put_request(&line, r, r->audit);
    json_member_text(&line, "stage", STR("end"));
    json_member_int(&line, "outcome", status);
    audit_close_line(&line);
    audit_append(audit, &line);
}

int audit_note(struct audit *a, const struct audit_event *e)
{
    CLEANUP(buf_release) struct buf line = {0};
    if (!audit_has_file(a))
        return 0;
    put_head(&line, &(struct line_head){0, e->who, e->from, e->action, e->target});
    if (e->outcome)
        json_member_int(&line, "outcome", e->outcome);
    if (e->members.len)
        buf_printf(&line, ",%.*s", STR_ARGS(e->members));
    audit_close_line(&line);
    return audit_append(a, &line);
}

/* Refusals. */

/* The address without its port; of a Unix socket, the user. */
static void put_address(char ret_address[FROM_SIZE], const struct http_peer *peer)
{
    if (peer->is_unix) {
        snprintf(ret_address, FROM_SIZE, "user %d on the Unix socket", (int)peer->user);
        return;
    }
    const char *port = strrchr(peer->address, ':');
    int len = port ? (int)(port - peer->address) : (int)strlen(peer->address);
    snprintf(ret_address, FROM_SIZE, "%.*s", len, peer->address);
}

/* NULL: it found no place. *ret_first: it is the first of this address. */
static struct address_refusals *find_address(struct audit *a, const char *address, bool *ret_first)
{
    size_t i = 0;
    while (i < a->address_count && strcmp(a->addresses[i].address, address) != 0)
        i++;
    *ret_first = i == a->address_count && i < AUDIT_ADDRESSES_MAX;
    if (*ret_first) {
        a->addresses[i] = (struct address_refusals){0};
        snprintf(a->addresses[i].address, FROM_SIZE, "%s", address);
        a->address_count++;
    }
    return i < AUDIT_ADDRESSES_MAX ? &a->addresses[i] : NULL;
}

static void log_refusal(struct audit *a, const struct http_request *r, enum http_refusal why)
{
    char address[FROM_SIZE];
    bool first;
    put_address(address, &r->peer);
    LOCKED(&a->lock);
    struct address_refusals *seen = find_address(a, address, &first);
    if (!seen)
        a->others++;
    else if (first)
        log_warning("refused %s: %s (%s)", address, REASONS[why].message, http_action(r));
    else
        seen->counts[why]++;
}

/* Reports what came after the first refusal of each address, and begins anew. */
static void on_timer(uv_timer_t *timer)
{
    struct audit *a = timer->data;
    LOCKED(&a->lock);
    for (size_t i = 0; i < a->address_count; i++) {
        const struct address_refusals *seen = &a->addresses[i];
        CLEANUP(buf_release) struct buf counts = {0};
        for (size_t why = 0; why < HTTP_REFUSALS; why++)
            if (seen->counts[why])
                buf_printf(&counts, ", %" PRIu64 " times because %s", seen->counts[why],
                           REASONS[why].message);
        if (counts.len)
            log_warning("refused %s again%s", seen->address, buf_text(&counts));
    }
    if (a->others)
        log_warning("refused %" PRIu64 " requests of further addresses", a->others);
    a->address_count = 0;
    a->others = 0;
}

void audit_refused(void *audit, const struct http_request *r, int status, enum http_refusal why)
{
    struct audit *a = audit;
    CLEANUP(buf_release) struct buf line = {0};
    counter_add(a->refusals[why], 1);
    log_refusal(a, r, why);
    if (!a->path)
        return;
    put_request(&line, r, ++a->requests);
    json_member_int(&line, "outcome", status);
    json_member_text(&line, "reason", str_of(REASONS[why].label));
    audit_close_line(&line);
    audit_append(a, &line);
}

/* Open and close. */

/* The file was moved away, by logrotate. */
static void on_hangup(uv_signal_t *hangup, int number)
{
    struct err_info e;
    (void)number;
    if (audit_reopen(hangup->data, &e))
        log_error("%s", e.text);
}

static void catch_hangup(struct audit *a, uv_loop_t *loop)
{
    a->hangup.data = a;
    UV_CHECK(uv_signal_init(loop, &a->hangup));
    UV_CHECK(uv_signal_start(&a->hangup, on_hangup, SIGHUP));
    uv_unref((uv_handle_t *)&a->hangup);
}

static void count_in(struct audit *a, struct metrics *m)
{
    for (size_t i = 0; i < HTTP_REFUSALS; i++) {
        char label[32];
        snprintf(label, sizeof label, "reason=\"%s\"", REASONS[i].label);
        a->refusals[i] = metrics_counter(m, "drover_auth_failures_total", label,
                                         "Requests that were refused with 401 or 403.");
    }
    a->lost = metrics_counter(m, "drover_audit_failures_total", NULL,
                              "Writes to the audit log that failed.");
}

int audit_open(uv_loop_t *loop, struct metrics *m, const char *file, struct audit **ret_audit,
               struct err_info *ret_error)
{
    int fd = -1;
    if (file)
        TRY(open_file(file, &fd, ret_error));
    struct audit *a = mem_zalloc(sizeof *a);
    a->fd = fd;
    a->path = file ? mem_dup(file, strlen(file)) : NULL;
    pthread_mutex_init(&a->lock, NULL);
    count_in(a, m);
    a->timer.data = a;
    UV_CHECK(uv_timer_init(loop, &a->timer));
    UV_CHECK(uv_timer_start(&a->timer, on_timer, AUDIT_COUNT_MS, AUDIT_COUNT_MS));
    uv_unref((uv_handle_t *)&a->timer);
    if (file)
        catch_hangup(a, loop);
    *ret_audit = a;
    return 0;
}

void audit_stop(struct audit *a)
{
    if (!a)
        return;
    on_timer(&a->timer);
    uv_close((uv_handle_t *)&a->timer, NULL);
    if (a->path)
        uv_close((uv_handle_t *)&a->hangup, NULL);
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
    if (a->fd >= 0)
        close(a->fd);
    free(a->path);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

bool audit_wire(void *audit, const struct wire_change *c)
{
    CLEANUP(buf_release) struct buf action = {0};
    buf_printf(&action, "keeper.%s", c->verb);
    struct audit_event e = {.who = c->who[0] ? c->who : "nobody",
                            .from = c->from,
                            .action = buf_text(&action),
                            .target = c->path,
                            .outcome = c->refused ? 403 : 0};
    return !audit_note(audit, &e) || c->refused;
}
