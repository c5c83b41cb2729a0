/* The data directory: who may read it, its space and file system, its server, and its disk. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/human.h"
#include "base/place.h"
#include "cli/doctor.h"

enum {
    SYNCS = 50,
    SYNC_LEN = 512,
    SYNC_TIME_MAX_MS = 10 * 1000,
    SYNC_MEDIAN_US = 10 * 1000, /* more is slow: as many changes a second as there are syncs */
    SYNC_WORST_US = 200 * 1000,
    FREE_PERCENT = 5,
    FREE_ERROR = 64 * 1024 * 1024,
    INODES_MIN = 1000,
};

/* File systems on which a journal is not as safe, or as quick, as on a local disk. */
static const struct {
    uint32_t magic;
    const char *name, *why;
} FILE_SYSTEMS[] = {
    {NFS_SUPER_MAGIC, "NFS", "another machine"},
    {SMB_SUPER_MAGIC, "SMB", "another machine"},
    {0xff534d42, "CIFS", "another machine"},
    {0xfe534d42, "SMB2", "another machine"},
    {0x00c36400, "Ceph", "another machine"},
    {AFS_SUPER_MAGIC, "AFS", "another machine"},
    {V9FS_MAGIC, "9p", "another machine"},
    {FUSE_SUPER_MAGIC, "FUSE", "a program that may not sync"},
    {TMPFS_MAGIC, "tmpfs", "memory: a restart of the machine loses everything"},
    {RAMFS_MAGIC, "ramfs", "memory: a restart of the machine loses everything"},
    {OVERLAYFS_SUPER_MAGIC, "overlayfs", "the layer of a container: it may end with it"},
};

static void check_file_system(struct doctor *d)
{
    struct statfs fs;
    if (statfs(d->data, &fs))
        return;
    for (size_t i = 0; i < sizeof FILE_SYSTEMS / sizeof *FILE_SYSTEMS; i++)
        if ((uint32_t)fs.f_type == FILE_SYSTEMS[i].magic) {
            doctor_say(d, DOCTOR_WARNING, "file system", "use a directory on a local disk",
                       "%s is on %s: the data is with %s", d->data, FILE_SYSTEMS[i].name,
                       FILE_SYSTEMS[i].why);
            return;
        }
    doctor_say(d, DOCTOR_OK, "file system", NULL, "%s is on a local one", d->data);
}

static void check_space(struct doctor *d)
{
    struct statvfs fs;
    char space[HUMAN_SIZE];
    if (statvfs(d->data, &fs) || !fs.f_blocks)
        return;
    uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    unsigned percent = (unsigned)(fs.f_bavail * 100 / fs.f_blocks);
    enum doctor_level level = bytes < FREE_ERROR       ? DOCTOR_ERROR
                              : percent < FREE_PERCENT ? DOCTOR_WARNING
                                                       : DOCTOR_OK;
    doctor_say(d, level, "space", level ? "make room: a full disk refuses every change" : NULL,
               "%s free (%u %%) for %s", human_size(space, bytes), percent, d->data);
    if (fs.f_files && fs.f_favail < INODES_MIN)
        doctor_say(d, DOCTOR_WARNING, "inodes", "remove files: snapshots need new ones",
                   "%" PRIu64 " left", (uint64_t)fs.f_favail);
}

static void check_mode(struct doctor *d, const struct stat *st)
{
    bool foreign = st->st_uid != geteuid() && geteuid() != 0;
    if (foreign)
        doctor_say(d, DOCTOR_WARNING, "data", "run this as the user of the server",
                   "%s belongs to user %u", d->data, (unsigned)st->st_uid);
    else if (st->st_mode & 077)
        doctor_say(d, DOCTOR_WARNING, "data", "chmod 700: it has everything, and the admin token",
                   "%s is open to others (mode %04o)", d->data, (unsigned)st->st_mode & 07777);
    else
        doctor_say(d, DOCTOR_OK, "data", NULL, "%s is for its owner only", d->data);
}

static void check_admin_token(struct doctor *d)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct stat st;
    buf_printf(&path, "%s/" PLACE_ADMIN_TOKEN, d->data);
    if (lstat(buf_text(&path), &st))
        return;
    if (!S_ISREG(st.st_mode) || st.st_mode & 077)
        doctor_say(d, DOCTOR_ERROR, "admin token",
                   "chmod 600 and restart the server: it then makes another one",
                   "others can read or replace %s", path.p);
    else
        doctor_say(d, DOCTOR_OK, "admin token", NULL, "%s is for its owner only", path.p);
}

/* The process that uses the directory, by the file `lock`; 0: none. */
static pid_t find_server(const char *dir)
{
    CLEANUP(buf_release) struct buf path = {0};
    char line[32] = "";
    int64_t pid = 0;
    buf_printf(&path, "%s/lock", dir);
    FILE *in = fopen(buf_text(&path), "re");
    if (in && fgets(line, sizeof line, in))
        line[strcspn(line, "\n")] = '\0';
    if (in)
        fclose(in);
    if (!option_digits(line, 1, INT32_MAX, &pid) || (kill((pid_t)pid, 0) && errno == ESRCH))
        return 0;
    return (pid_t)pid;
}

/* Whether the process was started with this word among its arguments. */
static bool has_argument(pid_t pid, const char *word)
{
    char path[64], text[64 * 1024];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    for (const char *p = text; len > 0 && p < text + len; p += strlen(p) + 1)
        if (!strncmp(p, word, strlen(word)))
            return true;
    return false;
}

static void check_process(struct doctor *d)
{
    char path[64];
    struct stat st;
    pid_t pid = find_server(d->data);
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (!pid || stat(path, &st)) {
        doctor_say(d, DOCTOR_OK, "process", NULL, "no server has %s open", d->data);
        return;
    }
    if (st.st_uid == 0 && !has_argument(pid, "--run-as"))
        doctor_say(d, DOCTOR_WARNING, "process",
                   "run the server as a user of its own, or give it --run-as",
                   "process %d is the server and runs as root: so do its commands", (int)pid);
    else
        doctor_say(d, DOCTOR_OK, "process", NULL, "process %d of user %u is the server", (int)pid,
                   (unsigned)st.st_uid);
}

void doctor_check_data(struct doctor *d)
{
    struct stat st;
    if (stat(d->data, &st)) {
        bool missing = errno == ENOENT && !d->data_given;
        doctor_say(d, missing ? DOCTOR_OK : DOCTOR_ERROR, "data",
                   missing ? NULL : "name the directory of the server: --data DIR", "%s: %s",
                   d->data, strerror(errno));
        return;
    }
    check_mode(d, &st);
    check_admin_token(d);
    check_process(d);
    check_file_system(d);
    check_space(d);
}

/* The disk. */

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Appends and syncs, as the journal does. Returns how many were measured; -1: errno says why. */
static int measure(int fd, int64_t us[SYNCS])
{
    static const char zeros[SYNC_LEN];
    int64_t end_us = now_us() + (int64_t)SYNC_TIME_MAX_MS * 1000;
    int count = 0;
    while (count < SYNCS && now_us() < end_us) {
        int64_t start_us = now_us();
        if (write(fd, zeros, SYNC_LEN) != SYNC_LEN || fdatasync(fd))
            return -1;
        us[count++] = now_us() - start_us;
    }
    return count;
}

void doctor_check_disk(struct doctor *d)
{
    CLEANUP(buf_release) struct buf path = {0};
    int64_t us[SYNCS];
    buf_printf(&path, "%s/doctor-XXXXXX", d->data);
    if (access(d->data, W_OK))
        return;
    int fd = mkostemp(path.p, O_CLOEXEC);
    if (fd >= 0)
        unlink(path.p);
    int count = fd < 0 ? -1 : measure(fd, us);
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    if (count < 0) {
        doctor_say(d, DOCTOR_ERROR, "disk", "see the log of the kernel: dmesg",
                   "cannot write to %s: %s", d->data, strerror(errnum));
        return;
    }
    qsort(us, (size_t)count, sizeof *us, compare);
    int64_t median = us[count / 2], worst = us[count - 1];
    bool slow = median > SYNC_MEDIAN_US || worst > SYNC_WORST_US;
    doctor_say(d, slow ? DOCTOR_WARNING : DOCTOR_OK, "disk",
               slow ? "each change waits for a sync: use a quicker disk, or --journal opportunistic"
                    : NULL,
               "a sync takes %.1f ms, at worst %.1f ms (%d of them)", (double)median / 1000,
               (double)worst / 1000, count);
}
