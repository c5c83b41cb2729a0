/* Subjects, and what a start on them must do. */
#include "damage.h"

#include <stdio.h>

#include "fs_faulty.h"
#include "keeper/journal/recover.h"

enum { ZEROS_LEFT = 1024 };

/* Segments end in long runs of zeros, which take time to read again and again. */
static void shorten(struct image *im)
{
    for (size_t i = 0; i < im->count; i++) {
        struct buf *b = &im->files[i].bytes;
        size_t end = b->len;

        if (strncmp(im->files[i].name, "journal-", 8) != 0)
            continue;
        while (end && !b->p[end - 1])
            end--;
        if (b->len > end + ZEROS_LEFT)
            b->len = end + ZEROS_LEFT;
    }
}

/* Where the records are, as found by a start that reads all segments. */
static void add_place(void *arg, uint64_t segment, size_t at, const struct tree_changes *c)
{
    struct subject *sub = arg;
    struct place *p;
    struct buf *bytes;
    struct record record;

    sub->records = mem_realloc(sub->records, (sub->record_count + 1) * sizeof *sub->records);
    p = &sub->records[sub->record_count++];
    *p = (struct place){.at = at, .lsn = c->zxid};
    snprintf(p->name, sizeof p->name, "journal-%010llu", (unsigned long long)segment);
    bytes = image_find(&sub->im, p->name);
    if (!record_read(bytes->p + at, bytes->len - at, record_salt(le_load64(bytes->p + 16)),
                     &record))
        abort();
    p->whole = record.whole_len;
}

static void find_records(struct subject *sub)
{
    struct recover_hooks hooks = {.record = add_place, .arg = sub};
    struct recovery r;
    struct err_info error;

    must(recover_read(sub->dir, &hooks, &r, &error));
    sub->zxid = r.tree.zxid;
    recovery_release(&r);
}

void subject_did(struct subject *sub, struct store *s)
{
    history_note(&sub->past, s);
    atomic_fetch_add(&s->wall_ms, 1);
}

void subject_make(struct subject *sub, subject_fn *work)
{
    struct fs_faulty *quick = fs_faulty_new();
    struct store *s = store_new();

    *sub = (struct subject){.dir = dir_make()};
    must(store_open(s, sub->dir, &quick->fs));
    subject_did(sub, s);
    must(store_connect(s));
    subject_did(sub, s);
    work(sub, s);
    store_leave(s);
    store_free(s);
    fs_faulty_free(quick);
    image_read(&sub->im, sub->dir);
    shorten(&sub->im);
    subject_restore(sub);
    find_records(sub);
}

void subject_release(struct subject *sub)
{
    image_release(&sub->im);
    history_release(&sub->past);
    free(sub->records);
    dir_remove(sub->dir);
}

void subject_few_records(struct subject *sub, struct store *s)
{
    char path[16], data[16];

    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "/node%d", i / 2);
        snprintf(data, sizeof data, "data %.*s%d", i, "________", i);
        if (i % 2)
            must(keeper_set(s->k, path, str_of(data), KEEPER_ANY_VERSION, NULL));
        else
            must(keeper_create(s->k, path, str_of(data), 0, NULL));
        subject_did(sub, s);
    }
}

void subject_restore(struct subject *sub)
{
    image_write(&sub->im, sub->dir);
}

void expect_refused(struct subject *sub, int err, const char *text, const char *text2)
{
    struct store *s = store_new();
    char *before = dir_listing(sub->dir), *after;

    expect_err(err, store_open(s, sub->dir, NULL));
    if ((text && !strstr(s->error.text, text)) || (text2 && !strstr(s->error.text, text2)))
        fail_msg("\"%s\" does not say \"%s\", \"%s\"", s->error.text, text, text2 ? text2 : "");
    after = dir_listing(sub->dir);
    expect_text("a start that was refused has changed the directory", before, after);
    free(before);
    free(after);
    store_free(s);
}

static void expect_past(struct subject *sub, int64_t want, int64_t zxid, const char *text)
{
    assert_int_equal(want, zxid);
    expect_text("the tree", history_at(&sub->past, zxid), text);
}

static void expect_note(const char *want, const char *got)
{
    if (want && !strstr(got, want))
        fail_msg("the note \"%s\" does not say \"%s\"", got, want);
    if (!want && *got)
        fail_msg("there is a note: \"%s\"", got);
}

void expect_found(struct subject *sub, int64_t zxid, const char *note)
{
    struct fs_faulty *quick = fs_faulty_new();
    struct store *s = store_new();
    char line[600], *text, *again;
    struct err_info error;

    if (store_open(s, sub->dir, &quick->fs))
        fail_msg("the start is refused: %s", s->error.text);
    text = store_text(s);
    expect_past(sub, zxid, store_zxid(s), text);
    store_last_note(s, line, sizeof line);
    expect_note(note, line);
    free(text);
    must(store_connect(s));
    must(keeper_create(s->k, "/later", STR("work goes on"), 0, NULL));
    text = store_text(s);
    store_leave(s);
    if (dir_text(sub->dir, &again, &zxid, &error))
        fail_msg("the second start is refused: %s", error.text);
    expect_text("the second start", text, again);
    free(text);
    free(again);
    store_free(s);
    fs_faulty_free(quick);
}

static void keep_note(void *arg, const char *line)
{
    snprintf(arg, 600, "%s", line);
}

void expect_readable(struct subject *sub, int64_t zxid, const char *note)
{
    char line[600] = "", *text;
    struct recover_hooks hooks = {.note = keep_note, .arg = line};
    struct err_info error;
    struct recovery r;

    if (recover_read(sub->dir, &hooks, &r, &error))
        fail_msg("refused: %s", error.text);
    text = tree_text(&r.tree);
    expect_past(sub, zxid, r.tree.zxid, text);
    expect_note(note, line);
    free(text);
    recovery_release(&r);
}
