/*
 * Files have numbers that do not change, since a file may be written to after it was renamed or
 * removed.
 */
#include "disk.h"

#include <assert.h>
#include <fcntl.h>

enum { SECTOR_LEN = 512 };

static const size_t THE_DIRECTORY = SIZE_MAX; /* as the file of a handle */

const char *disk_left_name(enum disk_left left)
{
    static const char *const NAMES[DISK_LEFTS] = {"everything", "what was synced", "a mixture"};

    return NAMES[left];
}

static void buf_assign(struct buf *to, const struct buf *from)
{
    to->len = 0;
    buf_put(to, from->p, from->len);
}

/* Longer with zeros, or shorter. */
static void buf_resize(struct buf *b, size_t len)
{
    if (len > b->len) {
        buf_reserve(b, len - b->len);
        memset(b->p + b->len, 0, len - b->len);
    }
    b->len = len;
}

static char *text_dup(const char *text)
{
    return text ? mem_dup(text, strlen(text)) : NULL;
}

static size_t names_find(const struct disk_names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->names[i], name) == 0)
            return i;
    return SIZE_MAX;
}

static void names_set(struct disk_names *n, const char *name, size_t file)
{
    size_t at = names_find(n, name);

    if (at == SIZE_MAX) {
        at = n->count++;
        n->names = mem_realloc(n->names, n->count * sizeof *n->names);
        n->files = mem_realloc(n->files, n->count * sizeof *n->files);
        n->names[at] = text_dup(name);
    }
    n->files[at] = file;
}

static void names_remove(struct disk_names *n, const char *name)
{
    size_t at = names_find(n, name);

    if (at == SIZE_MAX)
        return;
    free(n->names[at]);
    n->count--;
    n->names[at] = n->names[n->count];
    n->files[at] = n->files[n->count];
}

static void names_release(struct disk_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->names[i]);
    free(n->names);
    free(n->files);
    *n = (struct disk_names){0};
}

static void names_copy(struct disk_names *to, const struct disk_names *from)
{
    *to = (struct disk_names){0};
    for (size_t i = 0; i < from->count; i++)
        names_set(to, from->names[i], from->files[i]);
}

static void names_move(struct disk_names *n, const struct disk_move *m)
{
    if (m->from)
        names_remove(n, m->from);
    if (m->to)
        names_set(n, m->to, m->file);
}

static void moves_release(struct disk *d)
{
    for (size_t i = 0; i < d->move_count; i++) {
        free(d->moves[i].from);
        free(d->moves[i].to);
    }
    free(d->moves);
    d->moves = NULL;
    d->move_count = 0;
}

static void move_add(struct disk *d, const char *from, const char *to, size_t file)
{
    struct disk_move m = {text_dup(from), text_dup(to), file};

    d->moves = mem_realloc(d->moves, (d->move_count + 1) * sizeof *d->moves);
    d->moves[d->move_count++] = m;
    names_move(&d->now, &m);
}

static size_t file_add(struct disk *d)
{
    d->files = mem_realloc(d->files, (d->file_count + 1) * sizeof *d->files);
    d->files[d->file_count] = (struct disk_file){0};
    return d->file_count++;
}

void disk_init(struct disk *d, const struct image *im)
{
    *d = (struct disk){0};
    for (size_t i = 0; i < im->count; i++) {
        size_t file = file_add(d);

        buf_assign(&d->files[file].now, &im->files[i].bytes);
        buf_assign(&d->files[file].synced, &im->files[i].bytes);
        names_set(&d->now, im->files[i].name, file);
        names_set(&d->synced, im->files[i].name, file);
    }
}

void disk_release(struct disk *d)
{
    for (size_t i = 0; i < d->file_count; i++) {
        buf_release(&d->files[i].now);
        buf_release(&d->files[i].synced);
    }
    free(d->files);
    names_release(&d->now);
    names_release(&d->synced);
    moves_release(d);
    disk_restart(d);
    *d = (struct disk){0};
}

void disk_restart(struct disk *d)
{
    free(d->handles);
    d->handles = NULL;
    d->handle_count = 0;
}

void disk_copy(struct disk *to, const struct disk *from)
{
    *to = (struct disk){0};
    for (size_t i = 0; i < from->file_count; i++) {
        size_t file = file_add(to);

        buf_assign(&to->files[file].now, &from->files[i].now);
        buf_assign(&to->files[file].synced, &from->files[i].synced);
    }
    names_copy(&to->synced, &from->synced);
    names_copy(&to->now, &from->synced);
    for (size_t i = 0; i < from->move_count; i++)
        move_add(to, from->moves[i].from, from->moves[i].to, from->moves[i].file);
    for (size_t i = 0; i < from->handle_count; i++) {
        to->handles = mem_realloc(to->handles, (i + 1) * sizeof *to->handles);
        to->handles[i] = from->handles[i];
        to->handle_count = i + 1;
    }
}

static struct disk_file *file_of(struct disk *d, const struct fs_event *e)
{
    size_t file = d->handles[e->handle];

    return file == THE_DIRECTORY ? NULL : &d->files[file];
}

static void apply_open(struct disk *d, const struct fs_event *e)
{
    size_t at = names_find(&d->now, e->name), file = THE_DIRECTORY;
    size_t wanted = (size_t)e->handle + 1;

    if (!(e->flags & O_DIRECTORY)) {
        file = at != SIZE_MAX ? d->now.files[at] : file_add(d);
        if (at == SIZE_MAX)
            move_add(d, NULL, e->name, file);
        else if (e->flags & O_TRUNC)
            d->files[file].now.len = 0;
    }
    if (wanted > d->handle_count) {
        d->handles = mem_realloc(d->handles, wanted * sizeof *d->handles);
        d->handle_count = wanted;
    }
    d->handles[e->handle] = file;
}

static void apply_write(struct disk *d, const struct fs_event *e)
{
    struct buf *now = &file_of(d, e)->now;
    size_t at = (size_t)e->at, end = at + e->data.len;

    if (end > now->len)
        buf_resize(now, end);
    memcpy(now->p + at, e->data.p, e->data.len);
}

static void apply_sync(struct disk *d, const struct fs_event *e)
{
    struct disk_file *file = file_of(d, e);

    if (e->failed)
        return;
    if (file && e->len) {
        size_t end = (size_t)e->at + e->len;

        if (end > file->synced.len)
            buf_resize(&file->synced, end);
        memcpy(file->synced.p + e->at, file->now.p + e->at, e->len);
        return;
    }
    if (file) {
        buf_assign(&file->synced, &file->now);
        return;
    }
    names_release(&d->synced);
    names_copy(&d->synced, &d->now);
    moves_release(d);
}

static size_t file_named(const struct disk *d, const char *name)
{
    size_t at = names_find(&d->now, name);

    assert(at != SIZE_MAX);
    return d->now.files[at];
}

bool disk_apply(struct disk *d, const struct fs_event *e)
{
    switch (e->op) {
    case FS_OPEN:
        apply_open(d, e);
        return !(e->flags & O_DIRECTORY);
    case FS_PWRITE:
        apply_write(d, e);
        return true;
    case FS_FDATASYNC:
    case FS_FSYNC:
        apply_sync(d, e);
        return true;
    case FS_FTRUNCATE:
        buf_resize(&file_of(d, e)->now, (size_t)e->at);
        return true;
    case FS_RENAME:
        move_add(d, e->name, e->to, file_named(d, e->name));
        return true;
    case FS_UNLINK:
        move_add(d, e->name, NULL, file_named(d, e->name));
        return true;
    default:
        return false;
    }
}

bool disk_is_synced(const struct disk *d)
{
    for (size_t i = 0; i < d->file_count; i++) {
        const struct buf *now = &d->files[i].now, *synced = &d->files[i].synced;

        if (now->len != synced->len || (now->len && memcmp(now->p, synced->p, now->len) != 0))
            return false;
    }
    return d->move_count == 0;
}

static bool coin(struct rng *rng)
{
    return rng_next(rng) & 1;
}

/* Each sector new or old, in a file of the new or the old length. */
static void mix_bytes(const struct disk_file *f, struct rng *rng, struct buf *out)
{
    buf_assign(out, &f->synced);
    buf_resize(out, coin(rng) ? f->now.len : f->synced.len);
    for (size_t at = 0; at < f->now.len && at < out->len; at += SECTOR_LEN) {
        size_t end = at + SECTOR_LEN < f->now.len ? at + SECTOR_LEN : f->now.len;
        size_t len = (end < out->len ? end : out->len) - at;

        if (memcmp(out->p + at, f->now.p + at, len) != 0 && coin(rng))
            memcpy(out->p + at, f->now.p + at, len);
    }
}

static void mix_names(const struct disk *d, struct rng *rng, struct disk_names *out)
{
    names_copy(out, &d->synced);
    for (size_t i = 0; i < d->move_count; i++)
        if (coin(rng))
            names_move(out, &d->moves[i]);
}

void disk_image(const struct disk *d, enum disk_left left, struct rng *rng, struct image *ret_image)
{
    struct disk_names names;

    if (left == DISK_MIXED)
        mix_names(d, rng, &names);
    else
        names_copy(&names, left == DISK_ALL ? &d->now : &d->synced);
    *ret_image = (struct image){0};
    for (size_t i = 0; i < names.count; i++) {
        const struct disk_file *f = &d->files[names.files[i]];
        struct buf *bytes = image_add(ret_image, names.names[i]);

        if (left == DISK_MIXED)
            mix_bytes(f, rng, bytes);
        else
            buf_assign(bytes, left == DISK_ALL ? &f->now : &f->synced);
    }
    names_release(&names);
}
