/* What fires what: the table of changes and watches, on the node, its parent and above. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "keeper/tree/watch.h"

/* A watch that records its events: "created /a; " and so on. */
struct listener {
    struct tree_watch w;
    char heard[256];
    struct tree_watches *leave; /* removes itself at its first event */
};

static const char *const NAMES[] = {
    [KEEPER_EVENT_CREATED] = "created",
    [KEEPER_EVENT_CHANGED] = "changed",
    [KEEPER_EVENT_DELETED] = "deleted",
    [KEEPER_EVENT_CHILDREN] = "children",
};

static void hear(struct tree_watch *w, enum keeper_event event, struct str path)
{
    struct listener *l = (struct listener *)w;
    size_t len = strlen(l->heard);

    snprintf(l->heard + len, sizeof l->heard - len, "%s %.*s; ", NAMES[event], (int)path.len,
             path.p);
    if (l->leave) {
        watches_remove(l->leave, w);
        memset(&w->next, 0xff, sizeof w->next); /* it may be freed now */
    }
}

enum {
    CREATED = WATCH_EVENT(KEEPER_EVENT_CREATED),
    CHANGED = WATCH_EVENT(KEEPER_EVENT_CHANGED),
    DELETED = WATCH_EVENT(KEEPER_EVENT_DELETED),
    CHILDREN = WATCH_EVENT(KEEPER_EVENT_CHILDREN),
    ALL = CREATED | CHANGED | DELETED | CHILDREN,
};

static void listen(struct tree_watches *ws, struct listener *l, const char *path, int events,
                   bool recursive)
{
    *l = (struct listener){.w = {.events = events, .recursive = recursive, .fire = hear}};
    watches_add(ws, &l->w, str_of(path));
    assert_string_equal(l->w.path, path);
}

static void fire(struct tree_watches *ws, enum tree_change_kind kind, const char *path)
{
    watches_fire(ws, &(struct tree_change){.kind = kind, .path = str_of(path)});
}

/* A plain and a recursive watch for all events on each changed node, its parent and its child. */
static void what_fires_what(void **state)
{
    static const struct {
        enum tree_change_kind kind;
        const char *path, *at, *heard, *recursive;
    } rows[] = {
        {CHANGE_CREATE, "/a/b", "/a/b", "created /a/b; ", "created /a/b; "},
        {CHANGE_CREATE, "/a/b", "/a", "children /a; ", "created /a/b; children /a; "},
        {CHANGE_CREATE, "/a/b", "/", "", "created /a/b; "},
        {CHANGE_CREATE, "/a/b", "/a/b/c", "", ""},
        {CHANGE_CREATE, "/a/b", "/b", "", ""},
        {CHANGE_CREATE, "/a", "/", "children /; ", "created /a; children /; "},
        {CHANGE_SET, "/a/b", "/a/b", "changed /a/b; ", "changed /a/b; "},
        {CHANGE_SET, "/a/b", "/a", "", "changed /a/b; "},
        {CHANGE_SET, "/a/b", "/", "", "changed /a/b; "},
        {CHANGE_SET, "/", "/", "changed /; ", "changed /; "},
        {CHANGE_DELETE, "/a/b", "/a/b", "deleted /a/b; ", "deleted /a/b; "},
        {CHANGE_DELETE, "/a/b", "/a", "children /a; ", "deleted /a/b; children /a; "},
        {CHANGE_DELETE, "/a/b", "/", "", "deleted /a/b; "},
        {CHANGE_DELETE, "/a/b", "/a/b/c", "", ""},
        {CHANGE_SET_ACL, "/a/b", "/a/b", "", ""},
        {CHANGE_SESSION_OPEN, "", "/", "", ""},
        {CHANGE_SESSION_CLOSE, "", "/", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tree_watches ws = {0};
        struct listener plain, recursive;

        listen(&ws, &plain, rows[i].at, ALL, false);
        listen(&ws, &recursive, rows[i].at, ALL, true);
        fire(&ws, rows[i].kind, rows[i].path);
        watches_remove(&ws, &plain.w);
        watches_remove(&ws, &recursive.w);
        watches_release(&ws);
        if (strcmp(plain.heard, rows[i].heard) != 0)
            fail_msg("row %zu heard \"%s\"", i, plain.heard);
        if (strcmp(recursive.heard, rows[i].recursive) != 0)
            fail_msg("row %zu heard \"%s\" (recursive)", i, recursive.heard);
    }
}

/* A watch gets only the events that it asked for. */
static void events_are_chosen(void **state)
{
    static const struct {
        int events;
        const char *heard;
    } rows[] = {
        {0, ""},
        {CREATED, "created /a; "},
        {CHANGED, "changed /a; "},
        {DELETED, "deleted /a; "},
        {CHILDREN, "children /a; children /a; "},
        {CREATED | DELETED, "created /a; deleted /a; "},
        {ALL, "created /a; children /a; changed /a; children /a; deleted /a; "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tree_watches ws = {0};
        struct listener l;

        listen(&ws, &l, "/a", rows[i].events, false);
        fire(&ws, CHANGE_CREATE, "/a");
        fire(&ws, CHANGE_CREATE, "/a/b");
        fire(&ws, CHANGE_SET, "/a");
        fire(&ws, CHANGE_DELETE, "/a/b");
        fire(&ws, CHANGE_DELETE, "/a");
        assert_string_equal(l.heard, rows[i].heard);
        watches_remove(&ws, &l.w);
        watches_release(&ws);
    }
}

static void many_on_one_path(void **state)
{
    struct tree_watches ws = {0};
    struct listener l[5];

    (void)state;
    for (int i = 0; i < 5; i++)
        listen(&ws, &l[i], "/a", ALL, false);
    assert_int_equal(ws.count, 5);
    watches_remove(&ws, &l[4].w); /* first, middle and last of the list */
    watches_remove(&ws, &l[2].w);
    watches_remove(&ws, &l[0].w);
    fire(&ws, CHANGE_SET, "/a");
    for (int i = 0; i < 5; i++)
        assert_string_equal(l[i].heard, i % 2 ? "changed /a; " : "");
    watches_remove(&ws, &l[1].w);
    watches_remove(&ws, &l[3].w);
    fire(&ws, CHANGE_SET, "/a");
    assert_int_equal(ws.count, 0);
    watches_release(&ws);
}

/* A watch that removes itself, as ZooKeeper's do, does not affect its siblings and parents. */
static void a_watch_may_leave_while_it_is_told(void **state)
{
    struct tree_watches ws = {0};
    struct listener once[3], stays, above;

    (void)state;
    listen(&ws, &above, "/", ALL, true);
    above.leave = &ws;
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            listen(&ws, &stays, "/a/b", ALL, false);
        listen(&ws, &once[i], "/a/b", ALL, false);
        once[i].leave = &ws;
    }
    fire(&ws, CHANGE_SET, "/a/b");
    fire(&ws, CHANGE_SET, "/a/b");
    for (int i = 0; i < 3; i++)
        assert_string_equal(once[i].heard, "changed /a/b; ");
    assert_string_equal(above.heard, "changed /a/b; ");
    assert_string_equal(stays.heard, "changed /a/b; changed /a/b; ");
    assert_true(ws.count == 1 && ws.recursive == 0);
    watches_remove(&ws, &stays.w);
    watches_release(&ws);
}

/* Places come and go, and their positions are used again. */
static void many_paths(void **state)
{
    enum { PATHS = 200 };
    static struct listener l[PATHS];
    struct tree_watches ws = {0};
    uint32_t len;
    char path[16];

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PATHS; i++) {
            snprintf(path, sizeof path, "/n%d", i);
            listen(&ws, &l[i], path, ALL, false);
        }
        len = ws.len;
        for (int i = 0; i < PATHS; i += 2)
            watches_remove(&ws, &l[i].w);
        for (int i = 0; i < PATHS; i++) {
            snprintf(path, sizeof path, "/n%d", i);
            fire(&ws, CHANGE_SET, path);
            assert_int_equal(l[i].heard[0] != '\0', i % 2);
        }
        for (int i = 1; i < PATHS; i += 2)
            watches_remove(&ws, &l[i].w);
        assert_true(ws.len == PATHS && ws.len == len && ws.count == 0);
    }
    watches_release(&ws);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fires_what),  cmocka_unit_test(events_are_chosen),
        cmocka_unit_test(many_on_one_path), cmocka_unit_test(a_watch_may_leave_while_it_is_told),
        cmocka_unit_test(many_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
