/* The page for Prometheus. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/metrics.h"

static void expect_page(struct metrics *m, const char *wanted)
{
    struct buf page = {0};

    metrics_put(&page, m);
    assert_string_equal(buf_text(&page), wanted);
    buf_release(&page);
}

static double read_number(void *arg)
{
    return *(double *)arg;
}

static void families_stand_together(void **state)
{
    struct metrics *m = metrics_new();
    double value = 2.5;
    struct counter *a = metrics_counter(m, "x_total", "k=\"a\"", "Xs.");

    (void)state;
    metrics_read(m, "y", "gauge", NULL, "Ys.", read_number, &value);
    counter_add(metrics_counter(m, "x_total", "k=\"b\"", "Xs."), 2);
    counter_add(a, 1);
    counter_add(a, 41);
    metrics_counter(m, "x_total", "k=\"never\"", "Xs.");
    expect_page(m, "# HELP x_total Xs.\n# TYPE x_total counter\n"
                   "x_total{k=\"a\"} 42\nx_total{k=\"b\"} 2\nx_total{k=\"never\"} 0\n"
                   "# HELP y Ys.\n# TYPE y gauge\ny 2.5\n");
    value = -1;
    counter_add(a, 1);
    expect_page(m, "# HELP x_total Xs.\n# TYPE x_total counter\n"
                   "x_total{k=\"a\"} 43\nx_total{k=\"b\"} 2\nx_total{k=\"never\"} 0\n"
                   "# HELP y Ys.\n# TYPE y gauge\ny -1\n");
    metrics_free(m);
}

static void zeros_of_many_are_left_out(void **state)
{
    struct metrics *m = metrics_new();
    struct counter *last = NULL;
    char label[32];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(label, sizeof label, "k=\"%d\"", i);
        last = metrics_counter(m, "x_total", label, "Xs.");
    }
    counter_add(last, 7);
    expect_page(m, "# HELP x_total Xs.\n# TYPE x_total counter\nx_total{k=\"99\"} 7\n");
    metrics_free(m);
}

static void scales_differ(void **state)
{
    struct metrics *m = metrics_new();
    struct histogram elsewhere = {0};
    struct buf page = {0};

    (void)state;
    histogram_init(&elsewhere, &HISTOGRAM_RUN);
    metrics_show_histogram(m, "t_seconds", NULL, "Times.", &elsewhere);
    histogram_add(&elsewhere, UINT64_C(7200) * 1000000000);
    metrics_put(&page, m);
    buf_text(&page);
    assert_non_null(strstr(page.p, "t_seconds_bucket{le=\"0.01\"} 0\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{le=\"3600\"} 0\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{le=\"14400\"} 1\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{le=\"86400\"} 1\n"));
    assert_non_null(strstr(page.p, "t_seconds_sum 7200.000000000\n"));
    buf_release(&page);
    metrics_free(m);
}

static void buckets_add_up(void **state)
{
    struct metrics *m = metrics_new();
    struct histogram *h =
        metrics_histogram(m, "t_seconds", "r=\"x\"", "Times.", &HISTOGRAM_LATENCY);
    struct buf page = {0};

    (void)state;
    histogram_add(h, 0);
    histogram_add(h, 100000); /* at the end of its bucket, which holds it */
    histogram_add(h, 100001);
    histogram_add(h, 3000000000u);
    histogram_add(h, 999000000000u);
    metrics_put(&page, m);
    buf_text(&page);
    assert_non_null(strstr(page.p, "t_seconds_bucket{r=\"x\",le=\"0.0001\"} 2\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{r=\"x\",le=\"0.00025\"} 3\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{r=\"x\",le=\"2.5\"} 3\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{r=\"x\",le=\"5\"} 4\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{r=\"x\",le=\"10\"} 4\n"));
    assert_non_null(strstr(page.p, "t_seconds_bucket{r=\"x\",le=\"+Inf\"} 5\n"));
    assert_non_null(strstr(page.p, "t_seconds_sum{r=\"x\"} 1002.000200001\n"));
    assert_non_null(strstr(page.p, "t_seconds_count{r=\"x\"} 5\n"));
    buf_release(&page);
    metrics_free(m);
}

static void collect(void *arg, struct buf *page)
{
    struct buf labels = {0};

    metrics_put_family(page, "z", "gauge", "Zs.");
    metrics_put_label(&labels, "group", STR("a\"b\\c\nd"));
    metrics_put_label(&labels, "state", STR("owned"));
    metrics_put_sample(page, "z", (struct str){labels.p, labels.len}, *(double *)arg);
    buf_release(&labels);
}

static void collectors_write_families(void **state)
{
    struct metrics *m = metrics_new();
    double value = 9007199254740993.0;

    (void)state;
    metrics_collector(m, collect, &value);
    expect_page(m, "# HELP z Zs.\n# TYPE z gauge\n"
                   "z{group=\"a\\\"b\\\\c\\nd\",state=\"owned\"} 9007199254740992\n");
    metrics_free(m);
}

static void *count(void *arg)
{
    for (int i = 0; i < 10000; i++)
        counter_add(arg, 1);
    return NULL;
}

static void threads_count_at_once(void **state)
{
    struct metrics *m = metrics_new();
    struct counter *c = metrics_counter(m, "c_total", "", "Cs.");
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, count, c);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    expect_page(m, "# HELP c_total Cs.\n# TYPE c_total counter\nc_total 40000\n");
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_stand_together),
        cmocka_unit_test(zeros_of_many_are_left_out),
        cmocka_unit_test(buckets_add_up),
        cmocka_unit_test(scales_differ),
        cmocka_unit_test(collectors_write_families),
        cmocka_unit_test(threads_count_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
