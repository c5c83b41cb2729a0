#include "dag/started.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

enum { BOOT_LEN = 40 };

static const char MAGIC[16] = "drover runs 1\n";

struct run_mark {
    uint64_t node;
    uint32_t attempt, zero;
};

struct started_file {
    char magic[sizeof MAGIC];
    char boot[BOOT_LEN];
    char zeros[4096 - sizeof MAGIC - BOOT_LEN];
    struct run_mark marks[STARTED_MAX + 1]; /* the first is not used */
};

struct started {
    struct started_file *file;
    char boot[BOOT_LEN];
    bool kept[STARTED_MAX + 1];
    uint32_t free[STARTED_MAX];
    uint32_t free_count;
    bool overflow; /* a run has no mark: the marks are unreliable */
};

static bool read_boot(char boot[BOOT_LEN])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot, BOOT_LEN - 1);
    if (fd >= 0)
        close(fd);
    return n > 0;
}

/* Allocates all blocks, so that a full disk is an error here and not SIGBUS later. */
static struct started_file *map_file(const char *dir)
{
    char path[4096];
    void *p = MAP_FAILED;
    if (snprintf(path, sizeof path, "%s/runs", dir) >= (int)sizeof path)
        return NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && !posix_fallocate(fd, 0, sizeof(struct started_file)))
        p = mmap(NULL, sizeof(struct started_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static void clear_all(struct started_file *f)
{
    memset(f->boot, 0, sizeof f->boot); /* first: the marks are unreliable */
    memset(f->marks, 0, sizeof f->marks);
    memcpy(f->magic, MAGIC, sizeof MAGIC);
}

struct started *started_open(const char *dir)
{
    struct started *s = mem_zalloc(sizeof *s);
    s->file = read_boot(s->boot) ? map_file(dir) : NULL;
    if (!s->file) {
        free(s);
        return NULL;
    }
    if (memcmp(s->file->magic, MAGIC, sizeof MAGIC) != 0 || !started_is_reliable(s))
        clear_all(s->file);
    return s;
}

void started_close(struct started *s)
{
    if (!s)
        return;
    munmap(s->file, sizeof *s->file);
    free(s);
}

bool started_is_reliable(const struct started *s)
{
    return !memcmp(s->file->boot, s->boot, BOOT_LEN);
}

uint32_t started_find(const struct started *s, uint64_t node, uint32_t attempt)
{
    for (uint32_t i = 1; i <= STARTED_MAX; i++)
        if (s->file->marks[i].node == node && s->file->marks[i].attempt == attempt)
            return i;
    return 0;
}

/* Writes the node last, so that a mark is complete or free. */
static void put(struct started *s, uint32_t at, uint64_t node, uint32_t attempt)
{
    volatile struct run_mark *m = &s->file->marks[at];
    m->attempt = attempt;
    m->node = node;
}

uint32_t started_keep(struct started *s, uint64_t node, uint32_t attempt)
{
    uint32_t at = started_find(s, node, attempt);
    if (!at && (at = started_find(s, 0, 0)))
        put(s, at, node, attempt);
    if (at)
        s->kept[at] = true;
    s->overflow |= !at;
    return at;
}

void started_settle(struct started *s)
{
    s->free_count = 0;
    for (uint32_t i = STARTED_MAX; i; i--) {
        if (!s->kept[i])
            started_clear(s, i);
        s->kept[i] = false;
    }
    if (!s->overflow)
        memcpy(s->file->boot, s->boot, BOOT_LEN);
}

uint32_t started_mark(struct started *s, uint64_t node, uint32_t attempt)
{
    if (!s->free_count) {
        memset(s->file->boot, 0, sizeof s->file->boot);
        return 0;
    }
    uint32_t at = s->free[--s->free_count];
    put(s, at, node, attempt);
    return at;
}

void started_clear(struct started *s, uint32_t mark)
{
    put(s, mark, 0, 0);
    s->free[s->free_count++] = mark;
}
