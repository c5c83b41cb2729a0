/* The command line: tables of commands and options, mistyped words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"

static bool flag;
static bool follow;
static const char *text;
static int64_t number;
static int choice;
static struct option_addresses address;

static const struct option OPTIONS[] = {
    {"flag", NULL, "A flag.", option_flag, &flag},
    {"text", "TEXT", "A text,\nin two lines.", option_text, &text},
    {"number", "N", "A number.", option_number, &number, 1, 100},
    {"journal", "strict|opportunistic|none", "A choice.", option_choice, &choice},
    {"http", "ADDR:PORT|none", "An address.", option_addresses, &address},
    {"follow", NULL, "Has a letter.", option_flag, &follow, .letter = 'F'},
    {"untargeted", "N", "Has no target.", option_number, NULL, 0, 9},
    {0},
};

/* What the last command got. */
static struct {
    int count;
    char *operands[4], **command;
    int64_t untargeted;
    const char *name;
} got;

static int run(const struct cmd_call *call)
{
    got.name = call->cmd->name;
    got.count = call->count;
    for (int i = 0; i < call->count; i++)
        got.operands[i] = call->operands[i];
    got.command = call->command;
    got.untargeted = call->values[6].given ? call->values[6].number : -1;
    return CMD_OK;
}

static const struct cmd TRY = {
    .name = "try",
    .operands = "[DIR] [OTHER]",
    .about = "Tries.",
    .options = OPTIONS,
    .run = run,
};

static int setup(void **state)
{
    (void)state;
    flag = follow = false;
    text = NULL;
    number = choice = 0;
    address = (struct option_addresses){0};
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

/* Runs the command with the words up to NULL. Returns its exit status. */
static int try(const struct cmd *c, char **argv)
{
    int saved[2], files[2], argc = 0, status;

    while (argv[argc])
        argc++;
    memset(&got, 0, sizeof got);
    fflush(stdout);
    files[0] = redirect(STDOUT_FILENO, &saved[0]);
    files[1] = redirect(STDERR_FILENO, &saved[1]);
    status = cmd_run(c, argc, argv);
    fflush(stdout);
    restore(STDOUT_FILENO, files[0], saved[0], said[0]);
    restore(STDERR_FILENO, files[1], saved[1], said[1]);
    return status;
}

#define ARGV(...) ((char *[]){"try", __VA_ARGS__, NULL})

static void options_reach_their_targets(void **state)
{
    (void)state;
    assert_int_equal(
        try(&TRY, ARGV("--flag", "--text", "x y", "--number=7", "--journal", "none", "-F")),
        CMD_OK);
    assert_true(flag);
    assert_true(follow);
    assert_string_equal(text, "x y");
    assert_int_equal(number, 7);
    assert_int_equal(choice, 2);
    assert_int_equal(got.count, 0);
    assert_int_equal(got.untargeted, -1);
    assert_string_equal(said[0], "");
    assert_string_equal(said[1], "");
    assert_int_equal(try(&TRY, ARGV("--untargeted", "5")), CMD_OK);
    assert_int_equal(got.untargeted, 5);
}

static void the_last_one_counts(void **state)
{
    (void)state;
    assert_int_equal(try(&TRY, ARGV("--text=a=b", "--number", "1", "--number", "2")), CMD_OK);
    assert_string_equal(text, "a=b");
    assert_int_equal(number, 2);
}

static void operands_are_collected(void **state)
{
    (void)state;
    assert_int_equal(try(&TRY, ARGV("one", "--flag", "-")), CMD_OK);
    assert_int_equal(got.count, 2);
    assert_string_equal(got.operands[0], "one");
    assert_string_equal(got.operands[1], "-");
    assert_true(flag);
    flag = false;
    assert_int_equal(try(&TRY, ARGV("--", "--flag")), CMD_OK);
    assert_int_equal(got.count, 1);
    assert_string_equal(got.operands[0], "--flag");
    assert_false(flag);
}

static void the_operands_tell_how_many(void **state)
{
    static const struct {
        const char *operands;
        int min, max; /* max 3: any number */
    } rows[] = {{NULL, 0, 0},           {"A", 1, 1},          {"A B", 2, 2},
                {"A [B]", 1, 2},        {"A...", 1, 3},       {"[A...]", 0, 3},
                {"A [B]...", 1, 3},     {"A [B...|-]", 1, 3}, {"-- A [B]...", 1, 3},
                {"small|large A", 2, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int count = 0; count <= 3; count++) {
            char *argv[] = {"try", "a", "b", "c", NULL};
            struct cmd c = TRY;

            c.operands = rows[i].operands;
            argv[count + 1] = NULL;
            if (try(&c, argv) !=
                (count >= rows[i].min && count <= rows[i].max ? CMD_OK : CMD_USAGE))
                fail_msg("'%s' with %d operands", rows[i].operands, count);
        }
}

static void help_lists_the_table(void **state)
{
    (void)state;
    assert_int_equal(try(&TRY, ARGV("--flag", "--help", "--nonsense")), CMD_OK);
    assert_null(got.name);
    assert_string_equal(said[1], "");
    assert_non_null(strstr(said[0], "Usage: drover try [OPTION]... [DIR] [OTHER]\n\nTries.\n"));
    assert_non_null(strstr(said[0], "  --flag\n        A flag.\n"));
    assert_non_null(strstr(said[0], "  --text TEXT\n        A text,\n        in two lines.\n"));
    assert_non_null(strstr(said[0], "  -F, --follow\n"));
    assert_non_null(strstr(said[0], "  --help\n"));
}

/* Each message is one line that names the command, the mistake, and where to find help. */
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

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *argv[5] = {0};

        memcpy(argv, rows[i].words, sizeof rows[i].words);
        assert_int_equal(try(&TRY, argv), CMD_USAGE);
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

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(try(&TRY, ARGV(rows[i].word)), CMD_USAGE);
        assert_non_null(strstr(said[1], rows[i].end));
    }
}

static void a_missing_operand_is_named(void **state)
{
    struct cmd needs = TRY;

    (void)state;
    needs.operands = "DIR";
    assert_int_equal(try(&needs, ARGV("--flag")), CMD_USAGE);
    assert_string_equal(said[1], "drover try: missing argument: DIR (see 'drover try --help')\n");
}

static void a_wrong_value_leaves_the_target(void **state)
{
    (void)state;
    number = 55;
    choice = 1;
    address.none = true;
    assert_int_equal(try(&TRY, ARGV("--number", "x")), CMD_USAGE);
    assert_int_equal(try(&TRY, ARGV("--journal", "x")), CMD_USAGE);
    assert_int_equal(try(&TRY, ARGV("--http", "x:1")), CMD_USAGE);
    assert_int_equal(number, 55);
    assert_int_equal(choice, 1);
    assert_true(address.none);
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

/* Defaults. */

static const char *find_text(void)
{
    return "found";
}

static const struct cmd DEFAULTS = {
    .name = "try",
    .about = "Tries.",
    .options =
        CMD_OPTIONS({"number", "N", "A number.", option_number, &number, 1, 100, .initial = "7"},
                    {"text", "TEXT", "A text. Default: depends.", option_text, &text,
                     .find_initial = find_text}),
    .run = run,
};

static void a_default_is_a_value(void **state)
{
    (void)state;
    assert_int_equal(try(&DEFAULTS, ARGV(NULL)), CMD_OK);
    assert_int_equal(number, 7);
    assert_string_equal(text, "found");
    assert_int_equal(try(&DEFAULTS, ARGV("--number", "8", "--text=x")), CMD_OK);
    assert_int_equal(number, 8);
    assert_string_equal(text, "x");
    assert_int_equal(try(&DEFAULTS, ARGV("--help")), CMD_OK);
    assert_non_null(strstr(said[0], "  --number N\n        A number. Default: 7.\n"));
    assert_non_null(strstr(said[0], "        A text. Default: depends.\n"));
}

/* A command of the command. */

static const struct cmd RUNS = {.name = "try",
                                .operands = "DIR",
                                .about = "Tries.",
                                .options = OPTIONS,
                                .takes_command = true,
                                .run = run};

static void a_command_follows_two_dashes(void **state)
{
    (void)state;
    assert_int_equal(try(&RUNS, ARGV("--flag", "dir", "--", "run", "--text", "--")), CMD_OK);
    assert_true(flag);
    assert_null(text);
    assert_int_equal(got.count, 1);
    assert_string_equal(got.operands[0], "dir");
    assert_string_equal(got.command[0], "run");
    assert_string_equal(got.command[1], "--text");
    assert_string_equal(got.command[2], "--");
    assert_null(got.command[3]);
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

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *argv[6] = {0};

        memcpy(argv, rows[i].words, sizeof rows[i].words);
        assert_int_equal(try(&RUNS, argv), CMD_USAGE);
        snprintf(expected, sizeof expected, "drover try: %s (see 'drover try --help')\n",
                 rows[i].line);
        assert_string_equal(said[1], expected);
    }
}

/* Groups. */

static const struct cmd WORLD = {
    .name = "world",
    .about = "About worlds.",
    .subs =
        (const struct cmd *const[]){
            CMD("world init", "makes one", "[A] [B]", "Makes.", OPTIONS, CMD_LOCAL, run,
                .heading = "Making"),
            CMD("world show", "shows it", NULL, "Shows.", NULL, CMD_LOCAL, run,
                .heading = "Looking", .flag = "--show"),
            NULL,
        },
};

#define GROUP(...) ((char *[]){"world", __VA_ARGS__, NULL})

static void a_group_runs_its_subcommands(void **state)
{
    (void)state;
    assert_int_equal(try(&WORLD, GROUP("init", "a", "b")), CMD_OK);
    assert_string_equal(got.name, "world init");
    assert_int_equal(got.count, 2);
    assert_int_equal(try(&WORLD, GROUP("--show")), CMD_OK);
    assert_string_equal(got.name, "world show");
}

static void a_group_explains_itself(void **state)
{
    (void)state;
    assert_int_equal(try(&WORLD, GROUP("--help")), CMD_OK);
    assert_string_equal(said[0], "Usage: drover world COMMAND [ARGUMENT]...\n\nAbout worlds.\n\n"
                                 "Making:\n  init  makes one\n\nLooking:\n  show  shows it\n\n"
                                 "'drover help world COMMAND' explains a command.\n");
    assert_int_equal(try(&WORLD, GROUP("help", "show")), CMD_OK);
    assert_non_null(strstr(said[0], "Usage: drover world show"));
    assert_int_equal(try(&WORLD, GROUP(NULL)), CMD_USAGE);
    assert_string_equal(said[0], "");
    assert_non_null(strstr(said[1], "Usage: drover world COMMAND"));
}

static void a_group_guesses(void **state)
{
    (void)state;
    assert_int_equal(try(&WORLD, GROUP("inti")), CMD_USAGE);
    assert_string_equal(said[1], "drover world: unknown command 'inti' (did you mean 'init'?)\n");
    assert_int_equal(try(&WORLD, GROUP("frobnicate")), CMD_USAGE);
    assert_string_equal(said[1],
                        "drover world: unknown command 'frobnicate' (see 'drover help world')\n");
    assert_int_equal(try(&WORLD, GROUP("--frob")), CMD_USAGE);
    assert_string_equal(said[1],
                        "drover world: unknown option '--frob' (see 'drover help world')\n");
    assert_int_equal(try(&WORLD, GROUP("init", "--frob")), CMD_USAGE);
    assert_string_equal(said[1], "drover world init: unknown option '--frob' (see 'drover world "
                                 "init --help')\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_reach_their_targets, setup),
        cmocka_unit_test_setup(the_last_one_counts, setup),
        cmocka_unit_test_setup(operands_are_collected, setup),
        cmocka_unit_test_setup(the_operands_tell_how_many, setup),
        cmocka_unit_test_setup(help_lists_the_table, setup),
        cmocka_unit_test_setup(wrong_uses_are_named, setup),
        cmocka_unit_test_setup(mistyped_options, setup),
        cmocka_unit_test_setup(a_missing_operand_is_named, setup),
        cmocka_unit_test_setup(a_wrong_value_leaves_the_target, setup),
        cmocka_unit_test_setup(mistyped_words, setup),
        cmocka_unit_test_setup(a_default_is_a_value, setup),
        cmocka_unit_test_setup(a_command_follows_two_dashes, setup),
        cmocka_unit_test_setup(a_missing_command_is_named, setup),
        cmocka_unit_test_setup(a_group_runs_its_subcommands, setup),
        cmocka_unit_test_setup(a_group_explains_itself, setup),
        cmocka_unit_test_setup(a_group_guesses, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
