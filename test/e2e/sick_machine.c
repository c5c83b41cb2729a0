/*
 * Preloaded into drover doctor by test_doctor.py: a machine with the ailments in DROVER_TEST_SICK,
 * and otherwise a healthy one. Files below DROVER_TEST_ROOT stand for those of the kernel.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static int has(const char *what)
{
    return strstr(getenv("DROVER_TEST_SICK"), what) != NULL;
}

int fdatasync(int fd)
{
    struct timespec slow = {.tv_nsec = 15 * 1000 * 1000};
    (void)fd;
    if (has("slow disk"))
        nanosleep(&slow, NULL);
    if (has("broken disk"))
        errno = EIO;
    return has("broken disk") ? -1 : 0;
}

int adjtimex(struct timex *state)
{
    memset(state, 0, sizeof *state);
    state->status = has("free clock") ? STA_UNSYNC : 0;
    return has("free clock") ? TIME_ERROR : TIME_OK;
}

int statfs64(const char *path, struct statfs64 *fs)
{
    (void)path;
    memset(fs, 0, sizeof *fs);
    fs->f_type = has("nfs") ? 0x6969 : has("tmpfs") ? 0x01021994 : 0xef53;
    return 0;
}

int statvfs64(const char *path, struct statvfs64 *fs)
{
    (void)path;
    memset(fs, 0, sizeof *fs);
    fs->f_frsize = 4096;
    fs->f_blocks = 1000 * 1000 * 10;
    fs->f_bavail = has("full disk") ? 1000 : has("little space") ? 300 * 1000 : 5 * 1000 * 1000;
    fs->f_files = 1000 * 1000;
    fs->f_favail = has("few inodes") ? 10 : 500 * 1000;
    return 0;
}

int statfs(const char *path, struct statfs *fs)
{
    return statfs64(path, (struct statfs64 *)fs);
}

int statvfs(const char *path, struct statvfs *fs)
{
    return statvfs64(path, (struct statvfs64 *)fs);
}

FILE *fopen64(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen64");
    char copy[4096];
    snprintf(copy, sizeof copy, "%s%s", getenv("DROVER_TEST_ROOT"), path);
    return real(!strncmp(path, "/proc/", 6) && !access(copy, F_OK) ? copy : path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return fopen64(path, mode);
}
