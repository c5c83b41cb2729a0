#include "server/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

static int lock(const char *path, int *ret_fd, struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf name = {0};
    buf_printf(&name, "%s.lock", path);
    int fd = open(buf_text(&name), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set_errno(ret_error, errno, "cannot open %s", buf_text(&name));
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        int errnum = errno;
        close(fd);
        if (errnum == EWOULDBLOCK)
            return err_set(ret_error, DROVER_IN_USE, "another server listens on %s", path);
        return err_set_errno(ret_error, errnum, "cannot lock %s", buf_text(&name));
    }
    *ret_fd = fd;
    return 0;
}

/* What a killed server left is removed; anything else than a socket is not. */
static int remove_old(const char *path, struct err_info *ret_error)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_set_errno(ret_error, errno, "cannot look at %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(ret_error, DROVER_EXISTS, "%s is in the way: it is not a socket", path);
    return unlink(path) ? err_set_errno(ret_error, errno, "cannot remove %s", path) : 0;
}

/* For the owner only, until it has its group and mode. No other thread runs yet. */
static int bind_for_owner(int fd, const struct sockaddr_un *address)
{
    mode_t before = umask(0177);
    int err = bind(fd, (const struct sockaddr *)address, sizeof *address);
    umask(before);
    return err;
}

static int set_rights(const struct unix_socket_options *o, struct err_info *ret_error)
{
    const struct group *group = o->group ? getgrnam(o->group) : NULL;
    if (o->group && !group)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "there is no group %s", o->group);
    if (group && chown(o->path, (uid_t)-1, group->gr_gid))
        return err_set_errno(ret_error, errno, "cannot give %s to the group %s", o->path, o->group);
    if (chmod(o->path, o->mode))
        return err_set_errno(ret_error, errno, "cannot set the mode of %s", o->path);
    return 0;
}

static int bind_to(const struct unix_socket_options *o, struct unix_socket *s,
                   struct err_info *ret_error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(o->path) >= sizeof address.sun_path)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s is too long for a socket: at most %zu bytes", o->path,
                       sizeof address.sun_path - 1);
    memcpy(address.sun_path, o->path, strlen(o->path) + 1);
    TRY(lock(o->path, &s->lock_fd, ret_error));
    TRY(remove_old(o->path, ret_error));
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0 || bind_for_owner(s->fd, &address) || lstat(o->path, &st))
        return err_set_errno(ret_error, errno, "cannot listen on %s", o->path);
    s->path = mem_dup(o->path, strlen(o->path));
    s->device = st.st_dev;
    s->inode = st.st_ino;
    return set_rights(o, ret_error);
}

int unix_socket_open(const struct unix_socket_options *o, struct unix_socket *ret_socket,
                     struct err_info *ret_error)
{
    struct unix_socket s = {.fd = -1, .lock_fd = -1};
    int err = bind_to(o, &s, ret_error);
    if (err) {
        if (s.fd >= 0)
            close(s.fd);
        unix_socket_close(&s);
        return err;
    }
    *ret_socket = s;
    return 0;
}

void unix_socket_close(struct unix_socket *s)
{
    struct stat st;
    if (s->path && !lstat(s->path, &st) && st.st_dev == s->device && st.st_ino == s->inode)
        unlink(s->path);
    if (s->path || s->lock_fd > 0)
        close(s->lock_fd);
    free(s->path);
    *s = (struct unix_socket){.lock_fd = -1};
}
