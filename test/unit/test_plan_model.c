/*
 * The plan of a graph against a model that recomputes every state from scratch after each step, on
 * random graphs. DROVER_SEED repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dag/plan.h"

enum { MODEL_MAX = 120 };

struct model {
    struct plan_spec specs[MODEL_MAX];
    uint32_t parents[MODEL_MAX][4];
    int states[MODEL_MAX], taken[MODEL_MAX];
    uint32_t refs[MODEL_MAX];
    bool gone[MODEL_MAX];
    int count;
};

static int model_of(const struct model *m, uint32_t ref)
{
    for (int i = 0; i < m->count; i++)
        if (m->refs[i] == ref && !m->gone[i])
            return i;
    fail_msg("ref %u is not known", ref);
    return -1;
}

/* 0 waits, 1 may start, -1 cannot. */
static int model_verdict(const struct model *m, int i)
{
    const struct plan_spec *s = &m->specs[i];
    bool all = true, failed = false;

    for (uint32_t k = 0; k < s->parent_count; k++) {
        int j = model_of(m, m->parents[i][k]), st = m->states[j];

        all &= st >= NODE_FINISHED;
        failed |= st == NODE_FAILED;
        if (st >= NODE_FINISHED && st != NODE_FINISHED && s->node.when == WHEN_SUCCESS)
            return -1;
        if (st == NODE_FINISHED && m->specs[j].node.type == NODE_IF && s->node.branch &&
            s->node.branch != m->taken[j])
            return -1;
    }
    if (!all)
        return 0;
    return s->node.when == WHEN_FAILURE && !failed ? -1 : 1;
}

static void model_follow(struct model *m)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < m->count; i++) {
            int verdict = m->gone[i] || m->states[i] ? 0 : model_verdict(m, i);

            if (verdict < 0)
                m->states[i] = NODE_SKIPPED;
            else if (verdict > 0 && m->specs[i].node.type == NODE_GROUP)
                m->states[i] = NODE_FINISHED;
            else
                continue;
            changed = true;
        }
    }
}

static void model_compare(const struct model *m, const struct dag_plan *p)
{
    uint32_t best[3] = {0};

    for (int i = 0; i < m->count; i++) {
        const struct plan_node *n = &p->nodes[m->refs[i]];
        bool ready = !m->gone[i] && !m->states[i] && model_verdict(m, i) > 0;
        uint32_t *b = &best[m->specs[i].node.group];

        if (m->gone[i])
            continue;
        assert_int_equal(n->state, m->states[i]);
        assert_int_equal(n->place != 0, ready);
        if (ready && (!*b || n->priority < p->nodes[*b].priority ||
                      (n->priority == p->nodes[*b].priority && n->id < p->nodes[*b].id)))
            *b = m->refs[i];
    }
    for (uint32_t g = 0; g < 3; g++)
        assert_int_equal(plan_best(p, g), best[g]);
}

/* A batch whose parents are nodes of before and, upwards in a random order, of the batch itself. */
static void model_add(struct model *m, struct dag_plan *p)
{
    uint32_t count = 1 + rand() % 12, refs[12];
    struct plan_changes changes = {0};
    struct plan_spec *specs = &m->specs[m->count];
    uint32_t batch_parents[12][4];
    bool backwards = rand() % 2;

    if (m->count + count > MODEL_MAX)
        return;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = 0;

        specs[i] = (struct plan_spec){.node.id = 1 + m->count + i,
                                      .node.priority = rand() % 4 - 2,
                                      .node.group = rand() % 3,
                                      .node.type = rand() % 5,
                                      .node.when = rand() % 2 ? 0 : rand() % 3,
                                      .node.branch = rand() % 2 ? 0 : rand() % 3,
                                      .parents = batch_parents[i]};
        for (int k = 0; k < 4; k++) {
            uint32_t j = rand() % (m->count + count), parent;
            bool twice = false;

            if (j < (uint32_t)m->count) {
                if (m->gone[j])
                    continue;
                parent = m->refs[j];
            } else {
                j -= m->count;
                if (backwards ? j <= i : j >= i)
                    continue;
                parent = plan_in_batch(j);
            }
            for (uint32_t x = 0; x < n; x++)
                twice |= batch_parents[i][x] == parent;
            if (!twice)
                batch_parents[i][n++] = parent;
        }
        specs[i].parent_count = n;
    }
    assert_true(plan_add(p, specs, count, refs, &changes));
    for (uint32_t i = 0; i < count; i++) {
        m->refs[m->count + i] = refs[i];
        for (uint32_t k = 0; k < specs[i].parent_count; k++)
            m->parents[m->count + i][k] = batch_parents[i][k] & (uint32_t)PLAN_IN_BATCH
                                              ? refs[batch_parents[i][k] ^ (uint32_t)PLAN_IN_BATCH]
                                              : batch_parents[i][k];
        m->states[m->count + i] = m->taken[m->count + i] = 0;
    }
    m->count += (int)count;
    plan_changes_release(&changes);
}

static void model_retry(struct model *m, int i)
{
    bool again[MODEL_MAX] = {0};

    again[i] = true;
    m->states[i] = NODE_INCIPIENT;
    for (bool changed = true; changed;) {
        changed = false;
        for (int c = 0; c < m->count; c++)
            for (uint32_t k = 0; k < m->specs[c].parent_count && !m->gone[c]; k++)
                if (again[model_of(m, m->parents[c][k])] && m->states[c] == NODE_SKIPPED) {
                    m->states[c] = NODE_INCIPIENT;
                    changed = again[c] = true;
                }
    }
}

static bool model_is_parent(const struct model *m, int i)
{
    for (int c = 0; c < m->count; c++)
        for (uint32_t k = 0; k < m->specs[c].parent_count && !m->gone[c]; k++)
            if (m->parents[c][k] == m->refs[i])
                return true;
    return false;
}

static void model_step(struct model *m, struct dag_plan *p)
{
    struct plan_changes changes = {0};
    int i = m->count ? rand() % m->count : 0, what = rand() % 10;
    uint32_t best = plan_best(p, rand() % 3);

    if (!m->count || what == 0) {
        model_add(m, p);
    } else if (what <= 3 && best) {
        plan_start(p, best);
        m->states[model_of(m, best)] = NODE_RUNNING;
    } else if (what == 4 && plan_best_unoffered(p, 0)) {
        plan_offer(p, plan_best_unoffered(p, 0));
    } else if (what <= 6 && !m->gone[i] && m->states[i] == NODE_RUNNING) {
        m->states[i] = rand() % 3 ? NODE_FINISHED : NODE_FAILED;
        m->taken[i] = m->specs[i].node.type == NODE_IF ? 1 + rand() % 2 : 0;
        plan_end(p, m->refs[i], m->states[i], m->taken[i], &changes);
    } else if (what == 7 && !m->gone[i] && m->states[i] < NODE_FINISHED) {
        plan_end(p, m->refs[i], m->states[i] = NODE_KILLED, 0, &changes);
    } else if (what == 8 && !m->gone[i] && m->states[i] >= NODE_FINISHED) {
        model_retry(m, i);
        plan_retry(p, m->refs[i], &changes);
    } else if (what == 9 && !m->gone[i] && m->states[i] != NODE_RUNNING && !model_is_parent(m, i)) {
        plan_remove(p, m->refs[i]);
        m->gone[i] = true;
    }
    plan_changes_release(&changes);
}

static void random_graphs_agree_with_the_model(void **state)
{
    const char *given = getenv("DROVER_SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
    int rounds = getenv("DROVER_SOAK") ? 5000 : 150;

    (void)state;
    print_message("# DROVER_SEED=%u\n", seed);
    for (int round = 0; round < rounds; round++) {
        static struct model m;
        struct dag_plan p = {0};

        srand(seed + (unsigned)round);
        m.count = 0;
        memset(m.gone, 0, sizeof m.gone);
        for (int step = 0; step < 300; step++) {
            model_step(&m, &p);
            model_follow(&m);
            model_compare(&m, &p);
        }
        plan_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_agree_with_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
