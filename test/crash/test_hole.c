/*
 * Torn tails with holes in them. Records that were being written when the power failed may be there
 * in any part, later ones without earlier ones; `behind` (record.h) says what was on disk when a
 * record was written, and so whether a hole has lost an acknowledged record. Each row of the table
 * is one segment.
 */
#include <stdio.h>

#include "fs_faulty.h"
#include "keeper/journal/format.h"
#include "keeper/journal/record.h"
#include "store.h"

enum kind {
    NOTHING,   /* the end of a list */
    THERE,     /* a record */
    LOST,      /* zeros where one should be */
    WRONG,     /* one with a bit that is wrong */
    HALF,      /* the first half of one, then zeros */
    MARK,      /* a mark */
    SENSELESS, /* a record whose sum is right and whose payload is not */
    FORGED,    /* a record of another store, such as node data could hold */
};

/* One piece of a segment: what, which transaction, how far the disk was behind. */
struct piece {
    enum kind kind;
    int lsn, behind;
};

struct hole_case {
    const char *name;
    struct piece segments[2][8];
    int found;           /* transactions that a start finds; -1: it is refused */
    int segment, damage; /* then: in which segment, at which piece */
};

enum { STORE = 4711, PIECES_MAX = 8 };

static const struct hole_case CASES[] = {
    {"nothing lost", {{{THERE, 1, 1}, {THERE, 2, 1}, {THERE, 3, 1}}}, 3, 0, 0},
    {"the first of a batch lost",
     {{{THERE, 1, 1}, {THERE, 2, 1}, {LOST, 3, 1}, {THERE, 4, 2}}},
     2,
     0,
     0},
    {"the first of a batch wrong",
     {{{THERE, 1, 1}, {THERE, 2, 1}, {WRONG, 3, 1}, {THERE, 4, 2}}},
     2,
     0,
     0},
    {"the first of a batch half there",
     {{{THERE, 1, 1}, {THERE, 2, 1}, {HALF, 3, 1}, {THERE, 4, 2}, {THERE, 5, 3}}},
     2,
     0,
     0},
    {"the middle of a batch lost",
     {{{THERE, 1, 1}, {THERE, 2, 1}, {THERE, 3, 2}, {LOST, 4, 3}, {THERE, 5, 4}}},
     3,
     0,
     0},
    {"lost before one that knew it on disk",
     {{{THERE, 1, 1}, {THERE, 2, 1}, {LOST, 3, 1}, {THERE, 4, 1}}},
     -1,
     0,
     2},
    {"lost before data that looks like one of another store that knew it on disk",
     {{{THERE, 1, 1}, {THERE, 2, 1}, {LOST, 3, 1}, {FORGED, 4, 1}}},
     2,
     0,
     0},
    {"wrong before one that knew it on disk",
     {{{THERE, 1, 1}, {WRONG, 2, 1}, {THERE, 3, 1}}},
     -1,
     0,
     1},
    {"two lost, the third knew only the first",
     {{{THERE, 1, 1}, {LOST, 2, 1}, {LOST, 3, 2}, {THERE, 4, 2}}},
     -1,
     0,
     1},
    {"two lost, the third knew neither",
     {{{THERE, 1, 1}, {LOST, 2, 1}, {LOST, 3, 2}, {THERE, 4, 3}}},
     1,
     0,
     0},
    {"lost, and a much later one knew it",
     {{{THERE, 1, 1}, {LOST, 2, 1}, {THERE, 3, 2}, {THERE, 4, 3}, {THERE, 5, 1}}},
     -1,
     0,
     1},
    {"lost before a mark", {{{THERE, 1, 1}, {LOST, 2, 1}, {MARK, 2, 0}}}, -1, 0, 1},
    {"lost after a mark", {{{THERE, 1, 1}, {MARK, 1, 0}, {LOST, 2, 1}, {THERE, 3, 2}}}, 1, 0, 0},
    {"a lost mark", {{{THERE, 1, 1}, {LOST, 1, 0}, {THERE, 2, 1}}}, 1, 0, 0},
    {"the very first lost", {{{LOST, 1, 1}, {THERE, 2, 2}}}, 0, 0, 0},
    {"the very first lost, but known", {{{LOST, 1, 1}, {THERE, 2, 1}}}, -1, 0, 0},
    {"one left out", {{{THERE, 1, 1}, {THERE, 3, 1}}}, -1, 0, 1},
    {"one twice", {{{THERE, 1, 1}, {THERE, 1, 1}}}, -1, 0, 1},
    {"no sense", {{{THERE, 1, 1}, {SENSELESS, 2, 1}}}, -1, 0, 1},
    {"going on in the next", {{{THERE, 1, 1}}, {{THERE, 2, 1}, {MARK, 2, 0}}}, 2, 0, 0},
    {"torn, the next is empty", {{{THERE, 1, 1}, {WRONG, 2, 1}}}, 1, 0, 0},
    {"torn, the next goes on", {{{THERE, 1, 1}, {WRONG, 2, 1}}, {{THERE, 3, 1}}}, -1, 1, 0},
    {"torn, the next goes on as if it were whole",
     {{{THERE, 1, 1}, {WRONG, 2, 1}}, {{THERE, 2, 1}}},
     -1,
     1,
     0},
    {"lost at the end, the next goes on",
     {{{THERE, 1, 1}, {LOST, 2, 1}}, {{THERE, 3, 1}}},
     -1,
     1,
     0},
    {"lost at the end, the next has a mark",
     {{{THERE, 1, 1}, {LOST, 2, 1}}, {{MARK, 2, 0}}},
     -1,
     1,
     0},
    {"a hole in the next",
     {{{THERE, 1, 1}}, {{THERE, 2, 1}, {LOST, 3, 1}, {THERE, 4, 2}}},
     2,
     0,
     0},
};

enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

/* Transaction n makes node /n, which is the nth that was made below the root. */
static void put_record(struct buf *b, const struct piece *p)
{
    struct tree_changes c = {0};
    char path[16];

    snprintf(path, sizeof path, "%s%d", p->kind == SENSELESS ? "" : "/", p->lsn);
    changes_begin(&c, p->lsn, 1000);
    changes_add(&c, (struct tree_change){.kind = CHANGE_CREATE,
                                         .number = p->lsn,
                                         .path = str_of(path),
                                         .data = STR("some data in it")});
    record_put_changes(b, record_salt(p->kind == FORGED ? STORE + 1 : STORE), &c, p->behind);
    changes_release(&c);
}

static void put_piece(struct buf *b, const struct piece *p)
{
    size_t at = b->len, len;

    if (p->kind == MARK || !p->behind)
        record_put_mark(b, record_salt(STORE), p->lsn);
    else
        put_record(b, p);
    len = b->len - at;
    if (p->kind == LOST)
        memset(b->p + at, 0, len);
    else if (p->kind == HALF)
        memset(b->p + at + len / 2, 0, len - len / 2);
    else if (p->kind == WRONG)
        b->p[at + 30] ^= 4;
}

/* ret_places gets the offset of each piece. */
static void write_segment(const char *dir, int number, const struct piece *pieces,
                          size_t *ret_places)
{
    struct format_header h = {.kind = FORMAT_SEGMENT, .store = STORE, .number = (uint64_t)number};
    char name[32], header[FORMAT_HEADER_LEN];
    static const char zeros[1024];
    struct buf b = {0};

    format_header_put(header, &h);
    buf_put(&b, header, sizeof header);
    for (int i = 0; i < PIECES_MAX && pieces[i].kind; i++) {
        ret_places[i] = b.len;
        put_piece(&b, &pieces[i]);
    }
    buf_put(&b, zeros, sizeof zeros);
    snprintf(name, sizeof name, "journal-%010d", number);
    file_write(dir, name, &b);
    buf_release(&b);
}

static void expect_nodes(struct store *s, int count)
{
    char path[16];

    for (int lsn = 1; lsn < 8; lsn++) {
        snprintf(path, sizeof path, "/%d", lsn);
        expect_err(lsn <= count ? 0 : DROVER_NO_NODE, keeper_exists(s->k, path, NULL));
    }
}

/* What is there after the start is there after the next one too, with what came in between. */
static void expect_start(const char *dir, int found)
{
    struct fs_faulty *quick = fs_faulty_new();

    for (int start = 0; start < 2; start++) {
        struct store *s = store_new();

        if (store_open(s, dir, &quick->fs))
            fail_msg("start %d is refused: %s", start + 1, s->error.text);
        must(store_connect(s));
        expect_nodes(s, found);
        if (start == 0)
            must(keeper_create(s->k, "/later", STR(""), 0, NULL));
        must(keeper_exists(s->k, "/later", NULL));
        store_leave(s);
        store_free(s);
    }
    fs_faulty_free(quick);
}

static void expect_damage(const char *dir, int segment, size_t at)
{
    struct store *s = store_new();
    char *before = dir_listing(dir), *after, want[64];

    snprintf(want, sizeof want, "journal-%010d is damaged at offset %zu:", segment, at);
    expect_err(DROVER_DAMAGED, store_open(s, dir, NULL));
    if (!strstr(s->error.text, want))
        fail_msg("\"%s\" does not say \"%s\"", s->error.text, want);
    after = dir_listing(dir);
    assert_string_equal(before, after);
    free(before);
    free(after);
    store_free(s);
}

static void run_case(void **state)
{
    const struct hole_case *c = *state;
    size_t places[2][PIECES_MAX];
    char *dir = dir_make();

    for (int i = 0; i < 2; i++)
        write_segment(dir, i + 1, c->segments[i], places[i]);
    if (c->found >= 0)
        expect_start(dir, c->found);
    else
        expect_damage(dir, c->segment + 1, places[c->segment][c->damage]);
    dir_remove(dir);
}

int main(void)
{
    struct CMUnitTest tests[CASE_COUNT];

    for (size_t i = 0; i < CASE_COUNT; i++)
        tests[i] = (struct CMUnitTest){CASES[i].name, run_case, NULL, NULL, (void *)&CASES[i]};
    return run_group(tests);
}
