/* The standard input of a command, and signals to it. */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "dag/runner_impl.h"

/* Writes what the pipe takes. */
static void feed(struct run *r)
{
    struct run_watch *w = &r->watches[WATCH_STDIN];
    while (w->fd >= 0 && r->input.len) {
        ssize_t n = write(w->fd, r->input.p, r->input.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) { /* nobody reads it any more */
            run_close_watch(w);
            break;
        }
        memmove(r->input.p, r->input.p + n, r->input.len -= (size_t)n);
    }
    if (w->fd < 0)
        r->input.len = 0;
    if (!r->input.len && r->input_ended)
        run_close_watch(w);
    if (w->fd >= 0)
        epoll_ctl(r->runner->epoll, EPOLL_CTL_MOD, w->fd,
                  &(struct epoll_event){.events = r->input.len ? EPOLLOUT : 0, .data.ptr = w});
}

void run_feed(struct run *r)
{
    feed(r);
    if (!r->input.len && r->room)
        r->room(r->arg);
}

size_t run_write(struct run *r, struct str data, bool is_end)
{
    size_t room = RUN_INPUT_LEN - r->input.len, len = data.len < room ? data.len : room;
    if (r->watches[WATCH_STDIN].fd < 0 || r->input_ended)
        return data.len;
    buf_put(&r->input, data.p, len);
    r->input_ended = is_end && len == data.len;
    feed(r);
    return len;
}

void run_signal(struct run *r, int number)
{
    if (!r->over && !r->exited)
        kill(-r->orphans.leader, number);
}
