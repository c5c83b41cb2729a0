#include "server/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/option.h"
#include "base/uv_check.h"
#include "keeper/wire/wire.h"

enum {
    READY_POLL_MS = 20,    /* until it is ready */
    STATE_POLL_MS = 10000, /* from then on, if the watchdog does not want to hear sooner */
    PROGRESS_S = 5 * 60,   /* the longest that one step of a start may take */
    US_PER_MS = 1000,
};

/* The environment. */

static const char *const VARIABLES[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"};

/* How often the watchdog wants to hear of this process; 0: never. */
static int64_t watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t time_us, process;
    if (!usec || !option_digits(usec, 1, INT64_MAX, &time_us))
        return 0;
    if (pid && (!option_digits(pid, 1, INT32_MAX, &process) || process != getpid()))
        return 0;
    return time_us / US_PER_MS;
}

/* "/path", or "@name" in the abstract namespace, where the first byte is 0. */
static bool find_manager(struct notify *n, const char *path)
{
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof n->manager.sun_path)
        return false;
    n->manager.sun_family = AF_UNIX;
    memcpy(n->manager.sun_path, path, len);
    if (path[0] == '@')
        n->manager.sun_path[0] = '\0';
    n->manager_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return true;
}

void notify_open(struct notify *n)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (path && !find_manager(n, path)) {
        log_warning("$NOTIFY_SOCKET, %s, is no address of a Unix socket: nobody is notified", path);
    } else if (path) {
        n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        n->watchdog_ms = watchdog_ms();
        if (n->fd < 0)
            log_warning("cannot notify %s: %s", path, strerror(errno));
        n->fd = n->fd < 0 ? 0 : n->fd;
    }
    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++)
        unsetenv(VARIABLES[i]);
}

/* Messages. */

/*
 * Sends lines, each with its end, and the state in words: escaped, so that no name in it becomes a
 * line of its own. The loop does not wait for a manager that does not read.
 */
static void say(struct notify *n, const char *lines, struct str state)
{
    CLEANUP(buf_release) struct buf text = {0};
    if (!n->fd)
        return;
    buf_put_str(&text, str_of(lines));
    if (state.len) {
        buf_put_str(&text, STR("STATUS="));
        escape_put(&text, state, ESCAPE_LINE);
        buf_put_str(&text, STR("\n"));
    }
    ssize_t sent = sendto(n->fd, text.p, text.len, MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *)&n->manager, n->manager_len);
    if (sent < 0 && !n->failed)
        log_warning("cannot notify the service manager: %s", strerror(errno));
    n->failed = sent < 0;
}

/* "serving http://127.0.0.1:8048" */
static void say_state(struct notify *n, const char *lines, const char *more)
{
    CLEANUP(buf_release) struct buf state = {0};
    const struct context *h = n->modules->context;
    if (n->waiting)
        buf_printf(&state, "waiting for %s", n->waiting);
    else if (h->http)
        buf_printf(&state, "serving %s", http_url(h->http, 0));
    else
        buf_printf(&state, "serving zk://%s", wire_address(h->wire, 0));
    buf_put_str(&state, str_of(more));
    say(n, lines, buf_str(&state));
}

void notify_progress(struct notify *n, const char *what)
{
    char line[64];
    snprintf(line, sizeof line, "EXTEND_TIMEOUT_USEC=%" PRId64 "\n",
             (int64_t)PROGRESS_S * 1000 * US_PER_MS);
    say(n, line, str_of(what));
}

/* The timer. */

/*
 * False: changes wait to be written, and not one was since the last look. A disk that does not
 * answer may hold the thread of the journal for ever, while the loop turns.
 */
static bool journal_is_alive(struct notify *n)
{
    struct local_stats stats;
    if (!n->modules->context->local)
        return true;
    local_stats(n->modules->context->local, &stats);
    bool alive = !stats.durable_zxid || /* it has no journal */
                 stats.durable_zxid >= stats.zxid || stats.durable_zxid != n->durable_before;
    n->durable_before = stats.durable_zxid;
    return alive;
}

static uint64_t interval_ms(const struct notify *n)
{
    int64_t half = n->watchdog_ms / 2;
    if (!n->ready)
        return READY_POLL_MS;
    if (!n->watchdog_ms || half > STATE_POLL_MS)
        return STATE_POLL_MS;
    return half ? (uint64_t)half : 1;
}

static void on_timer(uv_timer_t *timer)
{
    struct notify *n = timer->data;
    const struct context *h = n->modules->context;
    const char *waiting = h->loop ? status_waits_for(n->modules) : NULL; /* NULL: HTTP is off */
    bool started = !waiting || !status_starting(n->modules);
    bool became_ready = started && !n->ready, changed = waiting != n->waiting;
    n->waiting = waiting;
    n->ready |= started;
    if (became_ready || changed)
        say_state(n, became_ready ? "READY=1\n" : "", "");
    if (n->ready && n->watchdog_ms && journal_is_alive(n))
        say(n, "WATCHDOG=1\n", STR(""));
    UV_CHECK(uv_timer_start(&n->timer, on_timer, interval_ms(n), 0));
}

void notify_begin(struct notify *n, uv_loop_t *loop, struct module_set *modules)
{
    if (!n->fd)
        return;
    n->modules = modules;
    n->begun = true;
    UV_CHECK(uv_timer_init(loop, &n->timer));
    n->timer.data = n;
    uv_unref((uv_handle_t *)&n->timer);
    UV_CHECK(uv_timer_start(&n->timer, on_timer, 0, 0));
}

/* Reload and end. */

void notify_reloading(struct notify *n)
{
    char lines[96];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n",
             (int64_t)now.tv_sec * 1000 * US_PER_MS + now.tv_nsec / 1000);
    say(n, lines, STR("reloading"));
}

void notify_reloaded(struct notify *n, bool done)
{
    if (n->begun)
        say_state(n, "READY=1\n", done ? "" : "; the last reload failed: see the log");
}

void notify_stopping(struct notify *n, const char *why)
{
    say(n, "STOPPING=1\n", str_of(why));
    if (n->begun)
        uv_close((uv_handle_t *)&n->timer, NULL);
    n->begun = false;
}

void notify_close(struct notify *n)
{
    if (n->fd)
        close(n->fd);
    n->fd = 0;
}
