/* The command line: option tables, the kinds of options, and mistyped words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/human.h"
#include "cli/cmd.h"

static bool flag;
static const char *text;
static int64_t number;
static int choice;
static struct option_address address;

static const struct option OPTIONS[] = {
    {"flag", NULL, "A flag.", option_flag, &flag},
    {"text", "TEXT", "A text,\nin two lines.", option_text, &text},
    {"number", "N", "A number.", option_number, &number, 1, 100},
    {"journal", "strict|opportunistic|none", "A choice.", option_choice, &choice},
    {"http", "ADDR:PORT|none", "An address.", option_address, &address},
};

static const struct cmd CMD = {
    .name = "try",
    .operands = "DIR",
    .operands_max = 2,
    .about = "Tries.",
    .options = OPTIONS,
    .option_count = sizeof OPTIONS / sizeof *OPTIONS,
};

static int setup(void **state)
{
    (void)state;
    flag = false;
    text = NULL;
    number = choice = 0;
    address = (struct option_address){0};
    return 0;
}

/* What the last parse() printed on each stream. */
static char said[2][1024];

static int redirect(int fd, int *ret_saved)
{
    char name[] = "/tmp/drover-test-XXXXXX";
    int file = mkstemp(name);

    unlink(name);
    *ret_saved = dup(fd);
    dup2(file, fd);
    return file;
}

static void restore(int fd, int file, int saved, char *ret_text)
{
    ssize_t len = pread(file, ret_text, sizeof said[0] - 1, 0);

    ret_text[len > 0 ? len : 0] = '\0';
    dup2(saved, fd);
    close(saved);
    close(file);
}

/* Parses the words up to NULL. Gives back cmd_parse's answer; operands are in argv. */
static bool parse(const struct cmd *c, char **argv, int *ret_argc, int *ret_status)
{
    int saved[2], files[2];
    bool go_on;

    for (*ret_argc = 0; argv[*ret_argc]; ++*ret_argc)
        ;
    fflush(stdout);
    files[0] = redirect(STDOUT_FILENO, &saved[0]);
    files[1] = redirect(STDERR_FILENO, &saved[1]);
    go_on = cmd_parse(c, ret_argc, argv, ret_status);
    fflush(stdout);
    restore(STDOUT_FILENO, files[0], saved[0], said[0]);
    restore(STDERR_FILENO, files[1], saved[1], said[1]);
    return go_on;
}

#define ARGV(...) ((char *[]){"try", __VA_ARGS__, NULL})

static void options_reach_their_targets(void **state)
{
    int argc, status;

    (void)state;
    assert_true(parse(&CMD, ARGV("--flag", "--text", "x y", "--number=7", "--journal", "none"),
                      &argc, &status));
    assert_true(flag);
    assert_string_equal(text, "x y");
    assert_int_equal(number, 7);
    assert_int_equal(choice, 2);
    assert_int_equal(argc, 1);
    assert_string_equal(said[0], "");
    assert_string_equal(said[1], "");
}

static void the_last_one_counts(void **state)
{
    int argc, status;

    (void)state;
    assert_true(parse(&CMD, ARGV("--text=a=b", "--number", "1", "--number", "2"), &argc, &status));
    assert_string_equal(text, "a=b");
    assert_int_equal(number, 2);
}

static void operands_are_gathered(void **state)
{
    char **argv = ARGV("one", "--flag", "-", NULL);
    char **dashed = ARGV("--", "--flag");
    int argc, status;

    (void)state;
    assert_true(parse(&CMD, argv, &argc, &status));
    assert_int_equal(argc, 3);
    assert_string_equal(argv[1], "one");
    assert_string_equal(argv[2], "-");
    assert_true(flag);
    flag = false;
    assert_true(parse(&CMD, dashed, &argc, &status));
    assert_int_equal(argc, 2);
    assert_string_equal(dashed[1], "--flag");
    assert_false(flag);
}

static void help_lists_the_table(void **state)
{
    int argc, status = -1;

    (void)state;
    assert_false(parse(&CMD, ARGV("--flag", "--help", "--nonsense"), &argc, &status));
    assert_int_equal(status, CMD_OK);
    assert_string_equal(said[1], "");
    assert_non_null(strstr(said[0], "Usage: drover try [OPTION]... DIR\n\nTries.\n"));
    assert_non_null(strstr(said[0], "  --flag\n        A flag.\n"));
    assert_non_null(strstr(said[0], "  --text TEXT\n        A text,\n        in two lines.\n"));
    assert_non_null(strstr(said[0], "  --help\n"));
}

/* Each is one line that names the command, what is wrong, and where to look. */
static void wrong_uses_are_named(void **state)
{
    static const struct {
        char *words[4];
        const char *line;
    } rows[] = {
        {{"try", "--x"}, "unknown option '--x'"},
        {{"try", "--x=1"}, "unknown option '--x'"},
        {{"try", "-x"}, "unknown option '-x'"},
        {{"try", "--flag=1"}, "option '--flag' takes no value"},
        {{"try", "--text"}, "option '--text' needs a value: TEXT"},
        {{"try", "--text="}, "--text: must not be empty"},
        {{"try", "--number", "0"}, "--number: '0' is not a number from 1 to 100"},
        {{"try", "--number", "101"}, "--number: '101' is not a number from 1 to 100"},
        {{"try", "--number", "7x"}, "--number: '7x' is not a number from 1 to 100"},
        {{"try", "--number", " 7"}, "--number: ' 7' is not a number from 1 to 100"},
        {{"try", "--number", "+7"}, "--number: '+7' is not a number from 1 to 100"},
        {{"try", "--number="}, "--number: '' is not a number from 1 to 100"},
        {{"try", "--number", "99999999999999999999"},
         "--number: '99999999999999999999' is not a number from 1 to 100"},
        {{"try", "--journal", "stric"}, "--journal: 'stric' is none of strict|opportunistic|none"},
        {{"try", "--journal="}, "--journal: '' is none of strict|opportunistic|none"},
        {{"try", "a", "b", "c"}, "unexpected argument 'c'"},
    };
    char expected[256];
    int argc, status;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *argv[5] = {0};

        memcpy(argv, rows[i].words, sizeof rows[i].words);
        status = -1;
        assert_false(parse(&CMD, argv, &argc, &status));
        assert_int_equal(status, CMD_USAGE);
        snprintf(expected, sizeof expected, "drover try: %s (see 'drover try --help')\n",
                 rows[i].line);
        assert_string_equal(said[1], expected);
        assert_string_equal(said[0], "");
    }
}

static void mistyped_options(void **state)
{
    static const struct {
        char *word;
        const char *end;
    } rows[] = {
        {"--fla", "(did you mean '--flag'?)"},
        {"--jornal=none", "(did you mean '--journal'?)"},
        {"--nonsense", "(see 'drover try --help')"},
        {"-f", "(see 'drover try --help')"},
    };
    int argc, status;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(parse(&CMD, ARGV(rows[i].word), &argc, &status));
        assert_int_equal(status, CMD_USAGE);
        assert_non_null(strstr(said[1], rows[i].end));
    }
}

static void a_missing_operand_is_named(void **state)
{
    struct cmd needs = CMD;
    int argc, status;

    (void)state;
    needs.operands_min = 1;
    assert_false(parse(&needs, ARGV("--flag"), &argc, &status));
    assert_int_equal(status, CMD_USAGE);
    assert_string_equal(said[1], "drover try: missing argument: DIR (see 'drover try --help')\n");
}

static void a_wrong_value_leaves_the_target(void **state)
{
    int argc, status;

    (void)state;
    number = 55;
    choice = 1;
    parse(&CMD, ARGV("--number", "x"), &argc, &status);
    parse(&CMD, ARGV("--journal", "x"), &argc, &status);
    address.none = true;
    parse(&CMD, ARGV("--http", "x:1"), &argc, &status);
    assert_int_equal(number, 55);
    assert_int_equal(choice, 1);
    assert_true(address.none);
}

static void addresses(void **state)
{
    static const struct {
        const char *text;
        int family, port;
        bool loopback;
    } rows[] = {
        {"127.0.0.1:8048", AF_INET, 8048, true},
        {"localhost:1", AF_INET, 1, true},
        {"127.255.0.9:65535", AF_INET, 65535, true},
        {"0.0.0.0:0", AF_INET, 0, false},
        {"128.0.0.1:80", AF_INET, 80, false},
        {"[::1]:8048", AF_INET6, 8048, true},
        {"[::]:1", AF_INET6, 1, false},
        {"[fe80::1]:1", AF_INET6, 1, false},
    };
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address.address;

        assert_int_equal(option_address(&OPTIONS[4], rows[i].text, &e), 0);
        assert_false(address.none);
        assert_int_equal(address.address.ss_family, rows[i].family);
        assert_int_equal(ntohs(v4->sin_port), rows[i].port); /* the same place in both */
        assert_int_equal(address_is_loopback(&address.address), rows[i].loopback);
    }
    assert_int_equal(option_address(&OPTIONS[4], "none", &e), 0);
    assert_true(address.none);
}

static void bad_addresses(void **state)
{
    static const char *const rows[] = {
        "",
        ":",
        "8048",
        ":8048",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:-1",
        "127.0.0.1:65536",
        "127.0.0.1:80 ",
        "127.1:80",
        "example.org:80",
        "::1:80",
        "[::1]",
        "[::1:80",
        "[]:80",
        "None",
        "127.0.0.1:0x50",
        "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee]:80",
    };
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (option_address(&OPTIONS[4], rows[i], &e) != DROVER_BAD_ARGUMENT)
            fail_msg("'%s' should be refused", rows[i]);
}

static void spans(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {
        {"500ms", 500},
        {"30s", 30000},
        {"1m30s", 90000},
        {"1h1m", 3660000},
        {"1d", 86400000},
        {"2d", 172800000},
        {"", -1},
        {"5", -1},
        {"s", -1},
        {"1x", -1},
        {"1m30", -1},
        {"-1s", -1},
        {"1 s", -1},
        {"0ms", -1},
        {"3d", -1},
        {"99999999999999999999d", -1},
        {"9223372036854775807ms1ms", -1},
    };
    int64_t ms;
    const struct option o = {"wait", "TIME", "", option_span, &ms, 1, 2 * 86400000};
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ms = -1;
        if (option_span(&o, rows[i].text, &e) != (rows[i].ms < 0 ? DROVER_BAD_ARGUMENT : 0))
            fail_msg("'%s': %s", rows[i].text, e.text);
        assert_int_equal(ms, rows[i].ms);
    }
    option_span(&o, "3d", &e);
    assert_string_equal(e.text, "'3d' is too long: at most 2d");
}

static void what_people_read(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "0s"},          {1, "1ms"},         {999, "999ms"},        {1000, "1s"},
        {1500, "1.5s"},     {59999, "59s"},     {60000, "1m"},         {90000, "1m30s"},
        {3600000, "1h"},    {3605000, "1h"},    {7500000, "2h5m"},     {86400000, "1d"},
        {90000000, "1d1h"}, {-90000, "-1m30s"}, {31536000000, "365d"},
    };
    char out[HUMAN_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(human_span(out, rows[i].ms), rows[i].text);
    assert_string_equal(human_size(out, 512), "512 B");
    assert_string_equal(human_size(out, 1536), "1.5 KiB");
    assert_string_equal(human_size(out, 16 << 20), "16 MiB");
    assert_string_equal(human_size(out, UINT64_MAX), "15.9 EiB");
    assert_string_equal(human_count(out, 1, "node"), "1 node");
    assert_string_equal(human_count(out, 0, "node"), "0 nodes");
    setenv("TZ", "UTC-2", 1);
    assert_string_equal(human_time(out, 1794850805123), "2026-11-16 19:40:05");
}

static void mistyped_words(void **state)
{
    static const char *const names[] = {"serve", "fsck", "help", "version"};
    static const struct {
        const char *word, *meant;
    } rows[] = {
        {"srve", "serve"},
        {"sevre", "serve"},
        {"fsk", "fsck"},
        {"halp", "help"},
        {"verison", "version"},
        {"serve", "serve"},
        {"x", NULL},
        {"", NULL},
        {"something", NULL},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *nearest = cmd_nearest(rows[i].word, names, 4);

        if (rows[i].meant)
            assert_string_equal(nearest, rows[i].meant);
        else
            assert_null(nearest);
    }
}

/* A command of the command. */

static char **command;

static struct cmd with_command(void)
{
    struct cmd c = CMD;

    command = NULL;
    c.operands_min = c.operands_max = 1;
    c.command = &command;
    return c;
}

static void a_command_follows_two_dashes(void **state)
{
    struct cmd c = with_command();
    char **argv = ARGV("--flag", "dir", "--", "run", "--text", "--");
    int argc, status;

    (void)state;
    assert_true(parse(&c, argv, &argc, &status));
    assert_true(flag);
    assert_null(text);
    assert_int_equal(argc, 2);
    assert_string_equal(argv[1], "dir");
    assert_string_equal(command[0], "run");
    assert_string_equal(command[1], "--text");
    assert_string_equal(command[2], "--");
    assert_null(command[3]);
}

static void a_missing_command_is_named(void **state)
{
    static const struct {
        char *words[5];
        const char *line;
    } rows[] = {
        {{"try", "dir"}, "missing: -- COMMAND [ARGUMENT]..."},
        {{"try", "dir", "--"}, "missing: -- COMMAND [ARGUMENT]..."},
        {{"try", "dir", "run"}, "unexpected argument 'run': the command stands after '--'"},
        {{"try", "dir", "x", "--", "run"}, "unexpected argument 'x'"},
        {{"try", "--", "run"}, "missing argument: DIR"},
    };
    char expected[256];
    int argc, status;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cmd c = with_command();
        char *argv[6] = {0};

        memcpy(argv, rows[i].words, sizeof rows[i].words);
        assert_false(parse(&c, argv, &argc, &status));
        assert_int_equal(status, CMD_USAGE);
        snprintf(expected, sizeof expected, "drover try: %s (see 'drover try --help')\n",
                 rows[i].line);
        assert_string_equal(said[1], expected);
    }
}

/* Groups. */

static char ran[64];

static int run_sub(const char *name, int argc, char **argv)
{
    struct cmd c = CMD;
    int status;

    c.name = name;
    if (!cmd_parse(&c, &argc, argv, &status))
        return status;
    snprintf(ran, sizeof ran, "%s:%s:%d", name, argv[0], argc);
    return CMD_OK;
}

static int run_init(int argc, char **argv)
{
    return run_sub("world init", argc, argv);
}

static int run_show(int argc, char **argv)
{
    return run_sub("world show", argc, argv);
}

static int run_group(int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"init", "makes one", run_init, "Making"},
        {"show", "shows it", run_show, "Looking", "--show"},
        {"plumbing", NULL, run_init},
    };
    static const struct cmd_group g = {"world", "About worlds.", subs, 3};

    return cmd_group_run(&g, argc, argv);
}

static int group(char **argv)
{
    int saved[2], files[2], argc = 0, status;

    while (argv[argc])
        argc++;
    ran[0] = '\0';
    fflush(stdout);
    files[0] = redirect(STDOUT_FILENO, &saved[0]);
    files[1] = redirect(STDERR_FILENO, &saved[1]);
    status = run_group(argc, argv);
    fflush(stdout);
    restore(STDOUT_FILENO, files[0], saved[0], said[0]);
    restore(STDERR_FILENO, files[1], saved[1], said[1]);
    return status;
}

#define GROUP(...) ((char *[]){"world", __VA_ARGS__, NULL})

static void a_group_runs_its_subcommands(void **state)
{
    (void)state;
    assert_int_equal(group(GROUP("init", "a", "b")), CMD_OK);
    assert_string_equal(ran, "world init:init:3");
    assert_int_equal(group(GROUP("--show")), CMD_OK);
    assert_string_equal(ran, "world show:--show:1");
    assert_int_equal(group(GROUP("plumbing")), CMD_OK);
}

static void a_group_explains_itself(void **state)
{
    (void)state;
    assert_int_equal(group(GROUP("--help")), CMD_OK);
    assert_string_equal(said[0], "Usage: drover world COMMAND [ARGUMENT]...\n\nAbout worlds.\n\n"
                                 "Making:\n  init  makes one\n\nLooking:\n  show  shows it\n\n"
                                 "'drover help world COMMAND' explains a command.\n");
    assert_int_equal(group(GROUP("help", "show")), CMD_OK);
    assert_non_null(strstr(said[0], "Usage: drover world show"));
    assert_int_equal(group(GROUP(NULL)), CMD_USAGE);
    assert_string_equal(said[0], "");
    assert_non_null(strstr(said[1], "Usage: drover world COMMAND"));
}

static void a_group_guesses(void **state)
{
    (void)state;
    assert_int_equal(group(GROUP("inti")), CMD_USAGE);
    assert_string_equal(said[1], "drover world: unknown command 'inti' (did you mean 'init'?)\n");
    assert_int_equal(group(GROUP("frobnicate")), CMD_USAGE);
    assert_string_equal(said[1],
                        "drover world: unknown command 'frobnicate' (see 'drover help world')\n");
    assert_int_equal(group(GROUP("--frob")), CMD_USAGE);
    assert_string_equal(said[1],
                        "drover world: unknown option '--frob' (see 'drover help world')\n");
    assert_int_equal(group(GROUP("init", "--frob")), CMD_USAGE);
    assert_string_equal(said[1], "drover world init: unknown option '--frob' (see 'drover world "
                                 "init --help')\n");
}

static void see(void *arg, const struct cmd *c, const char *summary)
{
    char *names = arg;

    strcat(strcat(names, c->name), c->option_count == 5 ? ";" : ":");
    if (summary)
        strcat(names, summary);
}

static void the_tables_can_be_described(void **state)
{
    char names[64] = "";

    (void)state;
    ran[0] = '\0';
    cmd_describe(run_group, see, names);
    assert_string_equal(names, "world:world init;makes oneworld show;shows it");
    assert_string_equal(ran, "");
    assert_int_equal(group(GROUP("init")), CMD_OK);
    assert_string_equal(ran, "world init:init:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_reach_their_targets, setup),
        cmocka_unit_test_setup(the_last_one_counts, setup),
        cmocka_unit_test_setup(operands_are_gathered, setup),
        cmocka_unit_test_setup(help_lists_the_table, setup),
        cmocka_unit_test_setup(wrong_uses_are_named, setup),
        cmocka_unit_test_setup(mistyped_options, setup),
        cmocka_unit_test_setup(a_missing_operand_is_named, setup),
        cmocka_unit_test_setup(a_wrong_value_leaves_the_target, setup),
        cmocka_unit_test_setup(addresses, setup),
        cmocka_unit_test_setup(bad_addresses, setup),
        cmocka_unit_test_setup(spans, setup),
        cmocka_unit_test_setup(what_people_read, setup),
        cmocka_unit_test_setup(mistyped_words, setup),
        cmocka_unit_test_setup(a_command_follows_two_dashes, setup),
        cmocka_unit_test_setup(a_missing_command_is_named, setup),
        cmocka_unit_test_setup(a_group_runs_its_subcommands, setup),
        cmocka_unit_test_setup(a_group_explains_itself, setup),
        cmocka_unit_test_setup(a_group_guesses, setup),
        cmocka_unit_test_setup(the_tables_can_be_described, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
