/* Which commands may run: users, executables, variables, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/policy.h"

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void accepts(const struct policy *p, struct policy_request q)
{
    struct err_info e;
    if (policy_check(p, &q, &e))
        fail_msg("%s", e.text);
}

static void refuses(const struct policy *p, struct policy_request q, const char *why)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct policy_grant grant;
    struct err_info e;
    assert_int_equal(policy_check(p, &q, &e), DROVER_BAD_ARGUMENT);
    if (!strstr(e.text, why))
        fail_msg("'%s' is not in '%s'", why, e.text);
    memset(&e, 0, sizeof e);
    if (!strstr(why, "limits.")) { /* those are lowered instead */
        assert_int_equal(policy_grant(p, &q, &a, &grant, &e), DROVER_BAD_ARGUMENT);
        if (!strstr(e.text, why))
            fail_msg("'%s' is not in '%s'", why, e.text);
    }
}

static void without_rules_everything_may_run(void **state)
{
    const struct policy p = {0};
    (void)state;
    accepts(&p, (struct policy_request){.argv = LIST("no-such")});
    accepts(&p, (struct policy_request){.argv = LIST("./x"), .env = LIST("LD_PRELOAD=x", "PATH=")});
    accepts(&p, (struct policy_request){.argv = LIST("x"), .limits = {{INT64_MAX, 1, 2, 3}}});
    refuses(&p, (struct policy_request){.argv = LIST("x"), .user = "root"},
            "no command may run as user 'root' here");
    refuses(&p, (struct policy_request){.argv = LIST("x"), .user = ""}, "as user ''");
}

static void executables(void **state)
{
    const struct policy p = {.patterns = {{"/usr/bin/[st]*", "/opt/?/run"}, 2}};
    static const struct {
        const char *command, *why; /* NULL: accepted */
    } rows[] = {
        {"sh", NULL},
        {"true", NULL},
        {"/usr/bin/true", NULL},
        {"/opt/a/run", NULL}, /* need not exist */
        {"cat", "no --allow-command permits /usr/bin/cat"},
        {"/bin/true", "permits /bin/true"},
        {"/opt/ab/run", "permits"},
        {"/opt///run", "nor an absolute path"},
        {"/usr/bin/sub/true", "permits"},
        {"/usr/bin/../bin/true", "nor an absolute path"},
        {"/usr/./bin/true", "nor an absolute path"},
        {"/usr/bin/true/", "nor an absolute path"},
        {"/usr/bin/s/..", "nor an absolute path"},
        {"usr/bin/true", "nor an absolute path"},
        {"./true", "nor an absolute path"},
        {"no-such-thing", "there is no command 'no-such-thing' here"},
        {"", "there is no command '' here"},
    };
    (void)state;
    setenv("PATH", "/usr/bin", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy_request q = {.argv = LIST(rows[i].command)};
        if (rows[i].why)
            refuses(&p, q, rows[i].why);
        else
            accepts(&p, q);
    }
}

/* Only those that match are tried, whatever else has the name. */
static void the_files_of_a_name(void **state)
{
    const struct policy p = {.patterns = {{"/bin/*"}, 1}};
    CLEANUP(arena_release) struct arena a = {0};
    struct policy_request q = {.argv = LIST("true")};
    struct policy_grant grant;
    struct err_info e;
    (void)state;
    setenv("PATH", "/no/such:/usr/bin:/bin", 1);
    assert_int_equal(policy_grant(&p, &q, &a, &grant, &e), 0);
    assert_string_equal(grant.paths[0], "/bin/true");
    assert_null(grant.paths[1]);
    setenv("PATH", "/usr/bin:.", 1);
    refuses(&p, q, "no --allow-command permits /usr/bin/true");
}

static void variables(void **state)
{
    const struct policy p = {.patterns = {{"/usr/bin/*"}, 1}};
    static const char *const bad[] = {"LD_PRELOAD=x", "LD_=",       "PATH=/usr/bin", "BASH_ENV=x",
                                      "PYTHONPATH=.", "GIT_DIR=/x", "IFS=x",         "ENV=x",
                                      "PERL5LIB=x",   "NODE_PATH=x"};
    (void)state;
    setenv("PATH", "/usr/bin", 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(&p, (struct policy_request){.argv = LIST("true"), .env = LIST("A=b", bad[i])},
                "cannot be set by a node");
    accepts(&p, (struct policy_request){.argv = LIST("true"),
                                        .env = LIST("OLD_PATH=x", "LANG=C", "PATHS=", "ENVS=x")});
}

static void limits(void **state)
{
    const struct policy p = {.limits = {{[LIMIT_MEMORY] = 1024, [LIMIT_FILES] = 10}}};
    CLEANUP(arena_release) struct arena a = {0};
    struct policy_request q = {.argv = LIST("x"),
                               .limits = {{[LIMIT_CPU] = 7, [LIMIT_MEMORY] = 1024}}};
    struct policy_grant grant;
    struct err_info e;
    (void)state;
    accepts(&p, q);
    assert_int_equal(policy_grant(&p, &q, &a, &grant, &e), 0);
    assert_int_equal(grant.limits.of[LIMIT_CPU], 7);
    assert_int_equal(grant.limits.of[LIMIT_MEMORY], 1024);
    assert_int_equal(grant.limits.of[LIMIT_FILES], 10); /* the default */
    assert_int_equal(grant.limits.of[LIMIT_PROCESSES], 0);
    q.limits.of[LIMIT_MEMORY] = 1025;
    refuses(&p, q, "limits.memory is 1 KiB, more than the maximum of this server, 1 KiB");
    assert_int_equal(policy_grant(&p, &q, &a, &grant, &e), 0);
    assert_int_equal(grant.limits.of[LIMIT_MEMORY], 1024); /* lowered at the start */
    q.limits.of[LIMIT_MEMORY] = 3;
    assert_int_equal(policy_grant(&p, &q, &a, &grant, &e), 0);
    assert_int_equal(grant.limits.of[LIMIT_MEMORY], 3);
}

static void users(void **state)
{
    struct policy p = {.run_as_text = "nobody:games", .users = {{"daemon", "games"}, 2}};
    CLEANUP(arena_release) struct arena a = {0};
    struct policy_grant grant;
    struct err_info e;
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can run commands as others\n");
        skip();
    }
    for (int again = 0; again < 2; again++) { /* it can be opened again */
        assert_int_equal(policy_open(&p, true, &e), 0);
        struct policy_request q = {.argv = LIST("x")};
        assert_int_equal(policy_grant(&p, &q, &a, &grant, &e), 0);
        assert_string_equal(grant.account->name, "nobody");
        assert_int_equal(grant.account->gid, 60);
        q.user = "nobody";
        assert_int_equal(policy_grant(&p, &q, &a, &grant, &e), 0);
        assert_int_equal(grant.account->gid, 60);
        q.user = "daemon";
        assert_int_equal(policy_grant(&p, &q, &a, &grant, &e), 0);
        assert_string_equal(grant.account->name, "daemon");
        q.user = "nobody:games";
        refuses(&p, q, "as user 'nobody:games'");
        policy_close(&p);
    }
    p.users.items[1] = "no-such";
    assert_int_not_equal(policy_open(&p, true, &e), 0);
    assert_string_equal(e.text, "--allow-user: there is no user 'no-such'");
    assert_null(p.run_as);
    assert_int_equal(policy_open(&p, false, &e), 0); /* others run the commands */
    accepts(&p, (struct policy_request){.argv = LIST("x"), .user = "no-such"});
    policy_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rules_everything_may_run),
        cmocka_unit_test(executables),
        cmocka_unit_test(the_files_of_a_name),
        cmocka_unit_test(variables),
        cmocka_unit_test(limits),
        cmocka_unit_test(users),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
