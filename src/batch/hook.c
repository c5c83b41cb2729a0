/* The hook of a report: a command that reads it on standard input, or a URL to post it to. */
#include <stdio.h>
#include <strings.h>

#include "base/child.h"
#include "base/clock.h"
#include "batch/callback.h"
#include "http/curl.h"

struct batch_hook {
    bool (*stop)(void *arg);
    void *arg;
    int64_t until_ms;
};

static bool go_on(void *arg)
{
    struct batch_hook *r = arg;

    return !r->stop(r->arg) && clock_boot_ms() < r->until_ms;
}

static int run_command(const char *command, const struct batch_report *n, struct batch_hook *r,
                       struct err_info *ret_error)
{
    char *argv[] = {"/bin/sh", "-c", (char *)command, NULL};
    char batch[64], key[96], state[96];
    const char *variables[] = {batch, key, state, NULL};
    struct child_options o = {.argv = argv,
                              .input = str_of(n->json),
                              .variables = variables,
                              .tick_ms = 200,
                              .tick = go_on,
                              .arg = r,
                              .grace_ms = 2000};
    int status;

    snprintf(batch, sizeof batch, "DROVER_BATCH=%s", n->batch);
    snprintf(key, sizeof key, "DROVER_REPORT=%s-%lld", n->batch, (long long)n->number);
    snprintf(state, sizeof state, "DROVER_STATE=%s", n->state);
    TRY(child_run(&o, &status, ret_error));
    return status == 0 ? 0
                       : err_set(ret_error, DROVER_IO, "the command ended with status %d", status);
}

static size_t drop(char *data, size_t size, size_t count, void *arg)
{
    (void)data;
    (void)arg;
    return size * count;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return go_on(arg) ? 0 : 1;
}

static int post(const char *url, const struct batch_report *n, struct batch_hook *r,
                struct err_info *ret_error)
{
    const struct curl *c = curl_load(ret_error);
    CURL *curl = c ? c->curl_easy_init() : NULL;
    struct curl_slist *headers = NULL;
    char key[96];
    long status = 0;

    if (!c)
        return DROVER_IO;
    if (!curl)
        err_fatal("out of memory (libcurl)");
    snprintf(key, sizeof key, "Idempotency-Key: %s-%lld", n->batch, (long long)n->number);
    headers = c->curl_slist_append(headers, "Content-Type: application/json");
    headers = c->curl_slist_append(headers, key);
    c->curl_easy_setopt(curl, CURLOPT_URL, url);
    c->curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    c->curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    c->curl_easy_setopt(curl, CURLOPT_POSTFIELDS, n->json);
    c->curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
    c->curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    c->curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    c->curl_easy_setopt(curl, CURLOPT_XFERINFODATA, r);
    c->curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)BATCH_HOOK_TIMEOUT_MS);
    CURLcode code = c->curl_easy_perform(curl);
    c->curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    c->curl_slist_free_all(headers);
    c->curl_easy_cleanup(curl);
    if (code != CURLE_OK)
        return err_set(ret_error, DROVER_IO, "%s", c->curl_easy_strerror(code));
    if (status < 200 || status > 299)
        return err_set(ret_error, DROVER_IO, "the web hook answered %ld", status);
    return 0;
}

int batch_hook_run(const char *hook, const struct batch_report *n, bool (*stop)(void *arg),
                   void *arg, struct err_info *ret_error)
{
    struct batch_hook r = {stop, arg, clock_boot_ms() + BATCH_HOOK_TIMEOUT_MS};

    if (!strncasecmp(hook, "http://", 7) || !strncasecmp(hook, "https://", 8))
        return post(hook, n, &r, ret_error);
    return run_command(hook, n, &r, ret_error);
}
