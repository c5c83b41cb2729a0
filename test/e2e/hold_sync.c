/*
 * Preloaded into the server by test_wire_durable.py: while the directory in DROVER_TEST_HOLD holds a file
 * "hold", every fdatasync adds a byte to "entered" and waits until there are at least as many bytes in
 * "allowed".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

int fdatasync(int fd)
{
    off_t number;

    if (access(in_dir("hold"), F_OK) == 0) {
        enter();
        number = size_of("entered");
        while (size_of("allowed") < number && access(in_dir("hold"), F_OK) == 0)
            usleep(1000);
    }
    return (int)syscall(SYS_fdatasync, fd);
}
