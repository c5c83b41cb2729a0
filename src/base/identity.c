#include "base/identity.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

static const struct {
    const char *name;
    enum role role;
} ROLES[] = {
    {"read", ROLE_READ}, {"work", ROLE_WORK},   {"submit", ROLE_SUBMIT},
    {"run", ROLE_RUN},   {"admin", ROLE_ADMIN}, {"all", ROLE_ALL},
    {"none", 0},
};

enum { ROLE_COUNT = sizeof ROLES / sizeof *ROLES };

int roles_parse(struct str text, unsigned *ret_roles, struct err_info *ret_error)
{
    unsigned roles = 0;
    while (text.p) {
        struct str word = str_cut(&text, ',');
        size_t i = 0;
        while (i < ROLE_COUNT && !str_eq(word, str_of(ROLES[i].name)))
            i++;
        if (i == ROLE_COUNT)
            return err_set(ret_error, DROVER_BAD_ARGUMENT,
                           "'%.*s' is no role: read, work, submit, run, admin, all or none",
                           STR_ARGS(word));
        roles |= ROLES[i].role;
    }
    *ret_roles = roles;
    return 0;
}

void roles_put(struct buf *b, unsigned roles)
{
    const char *before = "";
    for (size_t i = 0; i < ROLE_COUNT && ROLES[i].role != ROLE_ALL; i++)
        if (roles & ROLES[i].role) {
            buf_printf(b, "%s%s", before, ROLES[i].name);
            before = ", ";
        }
    if (!roles)
        buf_printf(b, "none");
}

const char *role_name(enum role role)
{
    size_t i = 0;
    while (ROLES[i].role != role)
        i++;
    return ROLES[i].name;
}

struct identity *identity_new(unsigned roles, const char *name)
{
    struct identity *who = mem_zalloc(sizeof *who);
    who->references = 1;
    who->roles = roles;
    snprintf(who->name, sizeof who->name, "%s", name);
    return who;
}

bool identity_limit(struct identity *who, enum identity_scope scope, struct str pattern)
{
    who->limited = true;
    if (who->pattern_count[scope] == SCOPE_PATTERNS_MAX)
        return false;
    who->patterns[scope][who->pattern_count[scope]++] = mem_dup(pattern.p, pattern.len);
    return true;
}

struct identity *identity_keep(struct identity *who)
{
    who->references++;
    return who;
}

void identity_drop(struct identity *who)
{
    if (!who || --who->references)
        return;
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        for (size_t j = 0; j < who->pattern_count[i]; j++)
            free(who->patterns[i][j]);
    free(who);
}

bool identity_matches(struct str pattern, struct str name)
{
    bool prefix = pattern.len && pattern.p[pattern.len - 1] == '*';
    if (prefix)
        pattern.len--;
    return prefix ? str_starts(name, pattern) : str_eq(name, pattern);
}

bool identity_reaches(const struct identity *who, enum identity_scope scope, struct str name)
{
    bool reaches = !who->limited;
    for (size_t i = 0; !reaches && i < who->pattern_count[scope]; i++)
        reaches = identity_matches(str_of(who->patterns[scope][i]), name);
    return reaches;
}
