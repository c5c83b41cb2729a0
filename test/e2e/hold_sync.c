/*
 * Preloaded into the server by test_wire_durable.py: while the directory in DROVER_TEST_HOLD holds
 * a file "hold", every sync of the journal adds a byte to "entered" and waits until there are at
 * least as many bytes in "allowed". Files that are still being made (*.tmp) are let through.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *in_dir(const char *name)
{
    static _Thread_local char path[4096];

    snprintf(path, sizeof path, "%s/%s", getenv("DROVER_TEST_HOLD"), name);
    return path;
}

static off_t size_of(const char *name)
{
    struct stat st;

    return stat(in_dir(name), &st) == 0 ? st.st_size : 0;
}

static void enter(void)
{
    int fd = open(in_dir("entered"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, "x", 1) != 1)
        abort();
    close(fd);
}

static int is_new(int fd)
{
    char link[64], path[4096] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, ".tmp");
}

static void pass(int fd)
{
    off_t number;

    if (access(in_dir("hold"), F_OK) == 0 && !is_new(fd)) {
        enter();
        number = size_of("entered");
        while (size_of("allowed") < number && access(in_dir("hold"), F_OK) == 0)
            usleep(1000);
    }
}

int fdatasync(int fd)
{
    pass(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

/* One that syncs what it writes writes first, and then passes. */
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    ssize_t n = syscall(SYS_pwritev2, fd, parts, count, at, 0, flags & ~RWF_DSYNC);

    return n >= 0 && flags & RWF_DSYNC && fdatasync(fd) < 0 ? -1 : n;
}
