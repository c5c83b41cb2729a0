/* The machine: its clock, and what limits a server on it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/human.h"
#include "cli/doctor.h"

enum { FILES_MIN = 4096, MEMORY_MIN = 256 * 1024 * 1024 };

static void check_clock(struct doctor *d)
{
    struct timex state = {0};
    int result = adjtimex(&state);
    if (result < 0)
        doctor_say(d, DOCTOR_WARNING, "clock", NULL, "its state cannot be read");
    else if (result == TIME_ERROR || state.status & STA_UNSYNC)
        doctor_say(d, DOCTOR_WARNING, "clock", "run an NTP client, such as chrony",
                   "it is not synchronised: a step changes when tasks are due and tokens end");
    else
        doctor_say(d, DOCTOR_OK, "clock", NULL, "synchronised, within %ld ms",
                   state.maxerror / 1000 + 1);
}

static void check_files(struct doctor *d)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    bool few = limit.rlim_max < FILES_MIN;
    doctor_say(d, few ? DOCTOR_WARNING : DOCTOR_OK, "files",
               few ? "raise it: LimitNOFILE= of the unit, or limits.conf" : NULL,
               "at most %" PRIu64 " open files: so many connections, less about 200",
               (uint64_t)limit.rlim_max);
}

/* The number after a word in a file of the kernel; -1: there is none. */
static int64_t kernel_number(const char *path, const char *word)
{
    char line[256];
    int64_t number = -1;
    FILE *in = fopen(path, "re");
    while (in && number < 0 && fgets(line, sizeof line, in))
        if (!strncmp(line, word, strlen(word)) &&
            sscanf(line + strlen(word), "%" SCNd64, &number) != 1)
            number = -1;
    if (in)
        fclose(in);
    return number;
}

static void check_memory(struct doctor *d)
{
    char space[HUMAN_SIZE];
    int64_t kib = kernel_number("/proc/meminfo", "MemAvailable:");
    if (kib >= 0)
        doctor_say(d, kib * 1024 < MEMORY_MIN ? DOCTOR_WARNING : DOCTOR_OK, "memory",
                   kib * 1024 < MEMORY_MIN ? "the tree is in memory: stop something else" : NULL,
                   "%s available", human_size(space, (uint64_t)kib * 1024));
    if (kernel_number("/proc/sys/vm/overcommit_memory", "") == 2)
        doctor_say(d, DOCTOR_WARNING, "overcommit", "sysctl vm.overcommit_memory=0",
                   "vm.overcommit_memory is 2: memory that is only reserved counts, and the server "
                   "may end for want of it");
}

/* Limits of commands need a cgroup of version 2 that this user may divide. */
static void check_cgroup(struct doctor *d)
{
    char line[512], path[600] = "";
    FILE *in = fopen("/proc/self/cgroup", "re");
    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, "0::", 3)) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, sizeof path, "/sys/fs/cgroup%s", line + 3);
        }
    if (in)
        fclose(in);
    if (path[0] && !access(path, W_OK))
        doctor_say(d, DOCTOR_OK, "cgroup", NULL, "%s can be divided: limits of commands hold",
                   path);
    else
        doctor_say(
            d, DOCTOR_WARNING, "cgroup",
            "start the server by systemd with Delegate=yes, if commands need limits",
            "no cgroup of version 2 is delegated: limits of commands are those of a process");
}

void doctor_check_machine(struct doctor *d)
{
    check_clock(d);
    check_files(d);
    check_memory(d);
    check_cgroup(d);
}
