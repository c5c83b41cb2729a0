/* Everything is read from /proc/self when a page is written; what cannot be read is left out. */
#include "server/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/metrics.h"

static void put(struct buf *page, const char *name, const char *type, const char *help,
                double value)
{
    metrics_put_family(page, name, type, help);
    metrics_put_sample(page, name, STR(""), value);
}

static double seconds_of(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* The numbers of proc(5)'s stat that follow the name, which may contain anything. */
static void put_stat(struct buf *page)
{
    char text[1024];
    long threads;
    unsigned long virtual_len, pages;
    FILE *in = fopen("/proc/self/stat", "re");
    size_t len = in ? fread(text, 1, sizeof text - 1, in) : 0;
    if (in)
        fclose(in);
    text[len] = '\0';
    const char *end_of_name = strrchr(text, ')');
    if (!end_of_name || sscanf(end_of_name + 1,
                               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                               "%*d %ld %*d %*u %lu %lu",
                               &threads, &virtual_len, &pages) != 3)
        return;
    put(page, "process_threads", "gauge", "Threads.", (double)threads);
    put(page, "process_virtual_memory_bytes", "gauge", "Virtual memory.", (double)virtual_len);
    put(page, "process_resident_memory_bytes", "gauge", "Memory in use.",
        (double)pages * (double)sysconf(_SC_PAGESIZE));
}

/* The size of the directory is their number since Linux 6.2, which saves reading thousands. */
static long count_files(void)
{
    struct stat st;
    long count = 0;
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (long)st.st_size;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return -1;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 3; /* ".", "..", and the one that read them */
}

static void put_files(struct buf *page)
{
    struct rlimit limit;
    long count = count_files();
    if (count >= 0)
        put(page, "process_open_fds", "gauge", "Open file descriptors.", (double)count);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        put(page, "process_max_fds", "gauge", "The limit on file descriptors.",
            (double)limit.rlim_cur);
}

static void collect(void *arg, struct buf *page)
{
    struct rusage usage;
    (void)arg;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        put(page, "process_cpu_seconds_total", "counter", "CPU time, of user and system.",
            seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime));
    put_stat(page);
    put_files(page);
}

static double read_start(void *arg)
{
    return *(const double *)arg;
}

void process_metrics(struct metrics *m)
{
    static double start_s;
    start_s = (double)clock_wall_ms() / 1000;
    metrics_read(m, "process_start_time_seconds", "gauge", NULL,
                 "When the process started, in seconds since the epoch.", read_start, &start_s);
    metrics_collector(m, collect, NULL);
}
