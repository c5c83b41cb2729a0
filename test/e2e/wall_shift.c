/*
 * Preloaded into the server by test_task_durable.py: wall time is off by as many seconds as the
 * file that DROVER_TEST_SHIFT names says. The other clocks are as they are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t)
{
    int result = (int)syscall(SYS_clock_gettime, id, t), fd;
    char text[32] = "";

    if (result || id != CLOCK_REALTIME)
        return result;
    fd = open(getenv("DROVER_TEST_SHIFT"), O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
        t->tv_sec += atol(text);
    if (fd >= 0)
        close(fd);
    return 0;
}
