/*
 * shell_words - runs a shell text without a shell where that makes no difference, as make does: a
 * shell costs as much as the command itself.
 */
#ifndef DAG_SHELL_WORDS_H
#define DAG_SHELL_WORDS_H

#include "base/arena.h"
#include "base/policy.h"

/*
 * The words of a text that has no shell syntax, up to NULL, in the arena. NULL: it has some, or its
 * command is one of the shell.
 */
const char *const *shell_words(const char *text, struct arena *a);

/*
 * What to execute instead of argv, if that is `bash -c TEXT` and TEXT is such a text, of a program
 * that is there; else argv. With a grant that names executables or another user it is argv too.
 */
const char *const *shell_skip(const char *const *argv, const char *const *envp, const char *cwd,
                              const struct policy_grant *grant, struct arena *a);

#endif
