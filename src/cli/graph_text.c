/*
 * A graph as text: a line for each node, parents first, and lanes on the left for the edges.
 *
 *     ● fetch    finished 1.2s
 *     ├─╮
 *     │ ● unpack    finished 300ms
 *     ● │ check    failed 20ms
 *     ├─╯
 *     ○ install    waiting
 *
 * A lane leads from a node down to all of its children that are not drawn yet. Nodes that wait for
 * the same children share one. So the lanes are as many as there are different sets of children to
 * come, which is few when chains are drawn together (draw_order()). A line that passes a lane which
 * it does not touch is interrupted there.
 *
 * There are at most LANES_MAX lanes, fewer if the terminal is narrow. Edges that have none are
 * named after the node: "< fetch".
 */
#include <inttypes.h>

#include "base/human.h"
#include "base/mem.h"
#include "cli/graph_draw.h"
#include "cli/verb.h"

enum { LANES_MAX = 40, NO_LANE = -1, NAMED_MAX = 3, NAME_WIDTH_MIN = 10 };
enum { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };

struct lanes {
    const struct draw *d;
    const struct draw_text *how;
    struct buf *b;
    int max;
    int64_t nodes[LANES_MAX]; /* a node of the lane; -1: the lane is free */
    uint32_t left[LANES_MAX]; /* children of it that are not drawn */
    int *lane_of;             /* of each node */
    uint32_t drawn;
    uint8_t row[2 * LANES_MAX + 2]; /* bits of each cell */
};

static const char *const GLYPHS[2][16] = {
    {" ", "|", "|", "|", "-", "'", ".", "|", "-", "`", ".", "|", "-", "+", "+", "+"},
    {" ", "│", "│", "│", "─", "╯", "╮", "┤", "─", "╰", "╭", "├", "─", "┴", "┬", "┼"},
};

/* Rows. */

static void begin_row(struct lanes *l)
{
    memset(l->row, 0, sizeof l->row);
    for (int i = 0; i < l->max; i++)
        if (l->nodes[i] >= 0)
            l->row[2 * i] = UP | DOWN;
}

/* A horizontal line from the first to the last of some places. It does not touch other lanes. */
static void connect_places(struct lanes *l, const bool *places)
{
    int low = 0, high = l->max;
    while (!places[low])
        low++;
    while (!places[high])
        high--;
    for (int i = 2 * low; i <= 2 * high; i++)
        if (i % 2 || places[i / 2] || !l->row[i])
            l->row[i] |= (uint8_t)((i > 2 * low ? LEFT : 0) | (i < 2 * high ? RIGHT : 0));
}

static int last_cell(const struct lanes *l)
{
    int last = -1;
    for (int i = 0; i < 2 * l->max + 1; i++)
        if (l->row[i])
            last = i;
    return last;
}

static void put_cells(struct lanes *l, int from, int to)
{
    for (int i = from; i < to; i++)
        buf_printf(l->b, "%s", GLYPHS[l->how->utf8][l->row[i]]);
}

static void put_row(struct lanes *l)
{
    put_cells(l, 0, last_cell(l) + 1);
    buf_printf(l->b, "\n");
}

/* Labels. */

static const char *mark_of(struct str state, bool utf8)
{
    static const struct {
        const char *state, *marks[2];
    } rows[] = {
        {"incipient", {"o", "○"}}, {"running", {">", "▶"}}, {"finished", {"*", "●"}},
        {"failed", {"X", "✗"}},    {"killed", {"K", "✗"}},  {"skipped", {"-", "◌"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_eq(state, str_of(rows[i].state)))
            return rows[i].marks[utf8];
    return utf8 ? "●" : "*";
}

/* "    failed 20ms" */
static void put_state(const struct draw_node *n, struct buf *b)
{
    struct str word = verb_state_word(n->state);
    char span[HUMAN_SIZE];
    if (word.len) {
        buf_printf(b, "    ");
        buf_put_str(b, word);
    }
    if (n->took_ms >= 0)
        buf_printf(b, " %s", human_span(span, n->took_ms));
}

/* "  < a, b, 3 more": the parents whose edges have no lane. */
static void put_unconnected(const struct lanes *l, const struct draw_node *n, struct buf *b)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < n->parent_count; k++)
        if (l->lane_of[n->parents[k]] == NO_LANE && count++ < NAMED_MAX) {
            buf_printf(b, "%s", count == 1 ? "  < " : ", ");
            buf_put_str(b, l->d->nodes[n->parents[k]].name);
        }
    if (count > NAMED_MAX)
        buf_printf(b, ", %" PRIu32 " more", count - NAMED_MAX);
}

/* What does not fit is left out: first the state, which the mark shows too, then the name. */
static void put_label(struct lanes *l, const struct draw_node *n, size_t used)
{
    CLEANUP(buf_release) struct buf name = {0}, state = {0};
    size_t room = !l->how->columns             ? SIZE_MAX
                  : l->how->columns > used + 1 ? l->how->columns - used - 1
                                               : 0;
    buf_put_str(&name, n->name);
    put_unconnected(l, n, &name);
    put_state(n, &state);
    size_t width = term_width(buf_str(&name)), tail = term_width(buf_str(&state));
    if (width + tail > room && room < NAME_WIDTH_MIN + tail)
        tail = 0;
    if (room)
        buf_printf(l->b, " ");
    term_put_safe(l->b, buf_str(&name), room - tail);
    if (tail)
        term_paint(l->b, l->how->coloured, verb_colour(n->state), buf_str(&state), SIZE_MAX);
    buf_printf(l->b, "\n");
}

static void put_node(struct lanes *l, const struct draw_node *n, int at)
{
    begin_row(l);
    l->row[2 * at] = UP; /* something, for last_cell() */
    int last = last_cell(l);
    bool coloured = l->how->coloured && verb_colour(n->state) != TERM_PLAIN;
    put_cells(l, 0, 2 * at);
    buf_printf(l->b, "%s%s%s", coloured ? term_colour(verb_colour(n->state)) : "",
               mark_of(n->state, l->how->utf8), coloured ? term_colour(TERM_PLAIN) : "");
    put_cells(l, 2 * at + 1, last + 1);
    put_label(l, n, (size_t)last + 1);
}

/* Lanes. */

static int free_lane(const struct lanes *l, int from)
{
    for (int i = from; i < l->max; i++)
        if (l->nodes[i] < 0)
            return i;
    return from ? free_lane(l, 0) : NO_LANE;
}

/* Draws the edges from the parents, and ends their lanes if this is the last child. The place. */
static int enter(struct lanes *l, const struct draw_node *n)
{
    bool leads[LANES_MAX + 1] = {false};
    int at = NO_LANE, first = NO_LANE;
    for (uint32_t k = 0; k < n->parent_count; k++)
        if (l->lane_of[n->parents[k]] != NO_LANE)
            leads[l->lane_of[n->parents[k]]] = true;
    for (int i = l->max; i-- > 0;)
        if (leads[i]) {
            first = i;
            at = --l->left[i] ? at : i;
        }
    if (at == NO_LANE)
        at = free_lane(l, first < 0 ? 0 : first);
    if (at == NO_LANE) /* there is no room: it stands beside the lanes */
        at = l->max;
    begin_row(l);
    for (int i = 0; i < l->max; i++)
        if (leads[i] && !l->left[i] && i != at) {
            l->row[2 * i] = UP;
            l->nodes[i] = -1;
        }
    l->row[2 * at] |= DOWN;
    bool straight =
        first == NO_LANE || (first == at && !memchr(leads + at + 1, 1, (size_t)(LANES_MAX - at)));
    leads[at] = true;
    if (!straight) {
        connect_places(l, leads);
        put_row(l);
    }
    return at;
}

/* A lane that leads to the same children, none of which is drawn. */
static int same_lane(const struct lanes *l, const struct draw_node *n, int except)
{
    for (int i = 0; i < l->max; i++) {
        if (l->nodes[i] < 0 || i == except || l->left[i] != n->child_count)
            continue;
        const struct draw_node *other = &l->d->nodes[l->nodes[i]];
        uint32_t same = 0;
        for (uint32_t k = 0; k < other->child_count && same < n->child_count; k++)
            same += other->children[k] == n->children[same];
        if (same == n->child_count)
            return i;
    }
    return NO_LANE;
}

/* Joins a node to the lane of others. The lane goes on at the left of the two places. */
static void join(struct lanes *l, uint32_t index, int at, int shared)
{
    int to = at < shared ? at : shared;
    bool places[LANES_MAX + 1] = {false};
    begin_row(l);
    l->row[2 * shared] = l->row[2 * at] = UP;
    l->row[2 * to] |= DOWN;
    places[at] = places[shared] = true;
    connect_places(l, places);
    put_row(l);
    l->lane_of[index] = shared;
    if (to == shared)
        return;
    l->nodes[to] = l->nodes[shared];
    l->left[to] = l->left[shared];
    l->nodes[shared] = -1;
    for (uint32_t i = 0; i < l->d->count; i++)
        if (l->lane_of[i] == shared)
            l->lane_of[i] = to;
}

/* The lane of a node that was drawn: none, that of others, or one of its own. */
static void leave(struct lanes *l, uint32_t index, int at)
{
    const struct draw_node *n = &l->d->nodes[index];
    int shared = n->child_count ? same_lane(l, n, at) : NO_LANE;
    l->lane_of[index] = NO_LANE;
    if (at < l->max)
        l->nodes[at] = -1;
    if (!n->child_count)
        return;
    if (shared != NO_LANE) {
        join(l, index, at, shared);
    } else if (at < l->max) {
        l->nodes[at] = index;
        l->left[at] = n->child_count;
        l->lane_of[index] = at;
    }
}

void draw_put_text(const struct draw *d, const struct draw_text *how, struct buf *b)
{
    struct lanes l = {.d = d, .how = how, .b = b, .max = LANES_MAX};
    CLEANUP(mem_free) char *memory = mem_alloc((d->count + 1) * sizeof *l.lane_of);
    l.lane_of = (int *)memory;
    if (how->columns && how->columns / 4 < LANES_MAX) /* half of the line is for names */
        l.max = how->columns < 12 ? 3 : (int)(how->columns / 4);
    for (int i = 0; i < LANES_MAX; i++)
        l.nodes[i] = -1;
    for (uint32_t i = 0; i < d->count; i++)
        l.lane_of[i] = NO_LANE;
    for (uint32_t i = 0; i < d->count; i++) {
        const struct draw_node *n = &d->nodes[d->order[i]];
        int at = enter(&l, n);
        put_node(&l, n, at);
        leave(&l, d->order[i], at);
    }
    if (d->left_out)
        buf_printf(b, "%" PRIu32 " more nodes (--limit)\n", d->left_out);
}
