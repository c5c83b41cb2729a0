#include "base/option.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"

const char *option_initial(const struct option *o)
{
    return o->find_initial ? o->find_initial() : o->initial;
}

static void clear(const struct option *o)
{
    if (o->parse == option_list_add)
        ((struct option_list *)o->target)->count = 0;
    else if (o->parse == option_addresses)
        *(struct option_addresses *)o->target = (struct option_addresses){0};
    else if (option_is_flag(o))
        *(bool *)o->target = false;
    else if (o->parse == option_text || o->parse == option_any_text)
        *(const char **)o->target = NULL;
    else if (o->parse == option_number || o->parse == option_span || o->parse == option_size)
        *(int64_t *)o->target = 0;
}

void option_set(const struct option *o, const char *const *texts, size_t count)
{
    struct err_info e;
    clear(o);
    for (size_t i = 0; i < count; i++) {
        int err = o->parse(o, texts[i], &e);
        assert(!err);
        (void)err;
    }
}

bool option_is_list(const struct option *o)
{
    return o->parse == option_list_add || o->parse == option_addresses || o->flags & OPTION_LIST;
}

bool option_is_flag(const struct option *o)
{
    return !o->argument;
}

/* A file or the environment may also say no, to overrule what ranks below. */
int option_flag(const struct option *o, const char *text, struct err_info *e)
{
    bool no = text && !strcmp(text, "no");
    if (text && !no && strcmp(text, "yes") != 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is neither yes nor no", text);
    *(bool *)o->target = !no;
    return 0;
}

int option_any_text(const struct option *o, const char *text, struct err_info *e)
{
    (void)e;
    *(const char **)o->target = text;
    return 0;
}

int option_text(const struct option *o, const char *text, struct err_info *e)
{
    if (!*text)
        return err_set(e, DROVER_BAD_ARGUMENT, "must not be empty");
    return option_any_text(o, text, e);
}

int option_list_add(const struct option *o, const char *text, struct err_info *e)
{
    struct option_list *list = o->target;
    if (!*text)
        return err_set(e, DROVER_BAD_ARGUMENT, "must not be empty");
    if (list->count == OPTION_LIST_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "given more than %d times", OPTION_LIST_MAX);
    list->items[list->count++] = text;
    return 0;
}

bool option_digits(const char *text, int64_t min, int64_t max, int64_t *ret_number)
{
    const char *digits = text + (min < 0 && *text == '-');
    if (!*digits || digits[strspn(digits, "0123456789")])
        return false;
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno || number < min || number > max)
        return false;
    *ret_number = number;
    return true;
}

int option_number(const struct option *o, const char *text, struct err_info *e)
{
    int64_t *number = o->target;
    if (option_digits(text, o->min, o->max, number))
        return 0;
    if (o->min < 0 && text[0] == '-' && option_digits(text + 1, -o->max, -o->min, number)) {
        *number = -*number;
        return 0;
    }
    return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is not a number from %" PRId64 " to %" PRId64,
                   text, o->min, o->max);
}

/*
 * Reads one part, "30s", at *text and moves *text past it. Negative: there is none, or the sum
 * would overflow.
 */
static int64_t span_part(const char **text, int64_t sum)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 86400 * 1000}};
    size_t len = strspn(*text, "0123456789"), unit_len = strcspn(*text + len, "0123456789");
    char digits[24];
    int64_t number;

    snprintf(digits, sizeof digits, "%.*s", (int)len, *text);
    for (size_t i = 0; i < sizeof units / sizeof *units && len < sizeof digits; i++)
        if (strlen(units[i].name) == unit_len && !memcmp(*text + len, units[i].name, unit_len)) {
            *text += len + unit_len;
            if (!option_digits(digits, 0, (INT64_MAX - sum) / units[i].ms, &number))
                return -1;
            return number * units[i].ms;
        }
    return -1;
}

int option_span(const struct option *o, const char *text, struct err_info *e)
{
    const char *at = text;
    char bound[HUMAN_SIZE];
    int64_t sum = 0;
    do {
        int64_t part = span_part(&at, sum);
        if (part < 0)
            return err_set(e, DROVER_BAD_ARGUMENT,
                           "'%s' is not a duration such as 500ms, 30s, 1m30s, 2h or 7d", text);
        sum += part;
    } while (*at);
    if (sum < o->min)
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is too short: at least %s", text,
                       human_span(bound, o->min));
    if (sum > o->max)
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is too long: at most %s", text,
                       human_span(bound, o->max));
    *(int64_t *)o->target = sum;
    return 0;
}

int option_span_or_never(const struct option *o, const char *text, struct err_info *e)
{
    if (strcmp(text, "never") != 0)
        return option_span(o, text, e);
    *(int64_t *)o->target = 0;
    return 0;
}

int option_size(const struct option *o, const char *text, struct err_info *e)
{
    static const char units[] = "KMGT";
    size_t len = strspn(text, "0123456789");
    const char *rest = text + len, *unit = *rest ? strchr(units, *rest) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    char digits[24], bound[HUMAN_SIZE];
    int64_t number;

    rest += unit ? 1 : 0;
    snprintf(digits, sizeof digits, "%.*s", (int)len, text);
    if ((*rest && (!unit || strcmp(rest, "iB") != 0)) || len >= sizeof digits ||
        !option_digits(digits, 0, INT64_MAX >> shift, &number))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "'%s' is not a size such as 65536, 512K, 64M or 2GiB", text);
    number <<= shift;
    if (number < o->min || number > o->max)
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is too %s: at %s %s", text,
                       number < o->min ? "small" : "large", number < o->min ? "least" : "most",
                       human_size(bound, (uint64_t)(number < o->min ? o->min : o->max)));
    *(int64_t *)o->target = number;
    return 0;
}

int option_choice(const struct option *o, const char *text, struct err_info *e)
{
    const char *word = o->argument;
    for (int i = 0; word; i++) {
        size_t len = strcspn(word, "|");
        if (strlen(text) == len && !memcmp(word, text, len)) {
            *(int *)o->target = i;
            return 0;
        }
        word = word[len] ? word + len + 1 : NULL;
    }
    return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is none of %s", text, o->argument);
}

static bool parse_host(const char *host, uint16_t port, struct sockaddr_storage *ret_address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    size_t len = strlen(host);
    char inner[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &v4.sin_addr) == 1) {
        memcpy(ret_address, &v4, sizeof v4);
        return true;
    }
    if (len < 2 || host[0] != '[' || host[len - 1] != ']')
        return false;
    snprintf(inner, sizeof inner, "%.*s", (int)(len - 2), host + 1);
    if (inet_pton(AF_INET6, inner, &v6.sin6_addr) != 1)
        return false;
    memcpy(ret_address, &v6, sizeof v6);
    return true;
}

static bool parse_address(const char *text, struct sockaddr_storage *ret_address)
{
    const char *colon = strrchr(text, ':');
    size_t host_len = colon ? (size_t)(colon - text) : 0;
    char host[64];
    int64_t port;
    snprintf(host, sizeof host, "%.*s", (int)host_len, text);
    return colon && host_len < sizeof host && option_digits(colon + 1, 0, UINT16_MAX, &port) &&
           parse_host(host, (uint16_t)port, ret_address);
}

int option_addresses(const struct option *o, const char *text, struct err_info *e)
{
    struct option_addresses *list = o->target;
    struct sockaddr_storage address = {0};
    bool none = !strcmp(text, "none");
    if (!none && !parse_address(text, &address))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "'%s' is neither an address and a port, such as 127.0.0.1:8048, nor none",
                       text);
    if (!none && list->count == OPTION_ADDRESSES_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "given more than %d times", OPTION_ADDRESSES_MAX);
    if (none)
        list->count = 0;
    else
        list->items[list->count++] = address;
    list->none = none;
    return 0;
}
