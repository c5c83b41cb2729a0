/*
 * A graph as SVG: layers from the top, each node below the lowest of its parents; within a layer,
 * by where the parents are.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/graph_draw.h"

enum { NODE_WIDTH = 150, NODE_HEIGHT = 34, GAP_X = 20, GAP_Y = 46, NAME_WIDTH = 20 };

struct svg_place {
    uint32_t node, layer;
    double wish; /* where it would like to be in its layer */
    uint32_t x;
};

static int by_wish(const void *a, const void *b)
{
    const struct svg_place *p = a, *q = b;
    if (p->layer != q->layer)
        return p->layer < q->layer ? -1 : 1;
    if (p->wish != q->wish)
        return p->wish < q->wish ? -1 : 1;
    return p->node < q->node ? -1 : p->node > q->node;
}

/* places: by node. Returns the most nodes in a layer. */
static uint32_t place_all(const struct draw *d, struct svg_place *places, uint32_t *ret_layers)
{
    struct svg_place *sorted = mem_alloc((d->count + 1) * sizeof *sorted);
    uint32_t widest = 0, in_layer = 0;
    *ret_layers = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const struct draw_node *n = &d->nodes[d->order[i]];
        struct svg_place *p = &places[d->order[i]];
        *p = (struct svg_place){.node = d->order[i]};
        for (uint32_t k = 0; k < n->parent_count; k++) {
            const struct svg_place *above = &places[n->parents[k]];
            p->layer = above->layer + 1 > p->layer ? above->layer + 1 : p->layer;
            p->wish += above->wish / n->parent_count;
        }
        if (!n->parent_count)
            p->wish = i;
        *ret_layers = p->layer + 1 > *ret_layers ? p->layer + 1 : *ret_layers;
        sorted[i] = *p;
    }
    qsort(sorted, d->count, sizeof *sorted, by_wish);
    for (uint32_t i = 0; i < d->count; i++) {
        in_layer = i && sorted[i].layer == sorted[i - 1].layer ? in_layer + 1 : 0;
        places[sorted[i].node].x = in_layer;
        widest = in_layer + 1 > widest ? in_layer + 1 : widest;
    }
    free(sorted);
    return widest;
}

static void put_xml(struct buf *b, struct str text, size_t width)
{
    CLEANUP(buf_release) struct buf safe = {0};
    term_put_safe(&safe, text, width);
    for (size_t i = 0; i < safe.len; i++) {
        char c = safe.p[i];
        if (strchr("<>&\"'", c))
            buf_printf(b, "&#%d;", c);
        else
            buf_put(b, &c, 1);
    }
}

static void put_svg_node(const struct draw_node *n, uint32_t x, uint32_t y, struct buf *b)
{
    buf_printf(b, "<g><title>");
    put_xml(b, n->name, SIZE_MAX);
    if (n->state.len) {
        buf_printf(b, ": ");
        put_xml(b, n->state, SIZE_MAX);
    }
    if (n->took_ms >= 0)
        buf_printf(b, ", %" PRId64 ".%03d s", n->took_ms / 1000, (int)(n->took_ms % 1000));
    buf_printf(b,
               "</title><rect x=\"%" PRIu32 "\" y=\"%" PRIu32
               "\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"%s\" stroke=\"#555\"/>"
               "<text x=\"%" PRIu32 "\" y=\"%" PRIu32 "\">",
               x, y, NODE_WIDTH, NODE_HEIGHT, draw_fill(n->state), x + NODE_WIDTH / 2,
               y + NODE_HEIGHT / 2 + 4);
    put_xml(b, n->name, NAME_WIDTH);
    buf_printf(b, "</text></g>\n");
}

static uint32_t left_of(const struct svg_place *p)
{
    return GAP_X + p->x * (NODE_WIDTH + GAP_X);
}

static uint32_t top_of(const struct svg_place *p)
{
    return GAP_X + p->layer * (NODE_HEIGHT + GAP_Y);
}

static void put_svg_edge(const struct svg_place *from, const struct svg_place *to, struct buf *b)
{
    uint32_t x1 = left_of(from) + NODE_WIDTH / 2, y1 = top_of(from) + NODE_HEIGHT,
             x2 = left_of(to) + NODE_WIDTH / 2, y2 = top_of(to), y = (y1 + y2) / 2;
    buf_printf(b,
               "<path d=\"M%" PRIu32 " %" PRIu32 "C%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32
               " %" PRIu32 " %" PRIu32 "\"/>\n",
               x1, y1, x1, y, x2, y, x2, y2);
}

void draw_put_svg(const struct draw *d, struct buf *b)
{
    struct svg_place *places = mem_zalloc((d->count + 1) * sizeof *places);
    uint32_t layers, widest = place_all(d, places, &layers);
    uint32_t width = GAP_X + widest * (NODE_WIDTH + GAP_X),
             height = GAP_X + layers * (NODE_HEIGHT + GAP_Y) + GAP_X;
    buf_printf(b,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%" PRIu32 "\" height=\"%" PRIu32
               "\" font-family=\"sans-serif\" font-size=\"12\">\n<title>",
               width, height);
    put_xml(b, d->title, SIZE_MAX);
    buf_printf(b, "</title>\n<g fill=\"none\" stroke=\"#777\">\n");
    for (uint32_t i = 0; i < d->count; i++)
        for (uint32_t k = 0; k < d->nodes[i].parent_count; k++)
            put_svg_edge(&places[d->nodes[i].parents[k]], &places[i], b);
    buf_printf(b, "</g>\n<g text-anchor=\"middle\">\n");
    for (uint32_t i = 0; i < d->count; i++)
        put_svg_node(&d->nodes[i], left_of(&places[i]), top_of(&places[i]), b);
    buf_printf(b, "</g>\n");
    if (d->left_out)
        buf_printf(b, "<text x=\"%d\" y=\"%" PRIu32 "\">%" PRIu32 " more nodes</text>\n", GAP_X,
                   height - 6, d->left_out);
    buf_printf(b, "</svg>\n");
    free(places);
}
