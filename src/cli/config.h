/*
 * config - options from a file and from the environment.
 *
 * The value of an option comes from the first of these that gives one:
 *
 *   the command line   --http 127.0.0.1:80      --zk-skip-acl
 *   the environment    DROVER_SERVE_HTTP=...    DROVER_SERVE_ZK_SKIP_ACL=yes
 *   the file           http 127.0.0.1:80        zk-skip-acl
 *   its row            option.initial
 *
 * The file has an option in each line, its name and its value. "#" begins a comment at the start of
 * a line and after a space. A flag stands alone, or with "yes" or "no". A list may stand in several
 * lines, and in several lines of a variable; the highest source that has any of its values has all
 * of them. A variable that is empty counts as not set.
 *
 * Every value is checked, also one that is overruled. What is wrong is one line that begins with
 * FILE:LINE or the variable. A file is refused that another user than root or our own could change:
 * options name programs to run.
 *
 * Values from a file live as long as the process.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/cmd.h"

#define CONFIG_FILE "/etc/drover/drover.conf"

/*
 * Fills what the command line has not given. The file is that of the option "config"; "none": no
 * file; by default CONFIG_FILE, if there is one.
 */
int config_read(struct cmd_parser *p, struct err_info *ret_error);

/*
 * The texts that an option has as its value, given or by default; "yes" or "no" for a flag. Returns
 * how many there are.
 */
size_t config_texts(const struct option *o, const struct cmd_value *v,
                    const char *texts[static OPTION_LIST_MAX]);

/* Where an option was given, for messages: "--http", "$DROVER_SERVE_HTTP", "FILE:3: http". */
enum { CONFIG_ORIGIN_SIZE = 512 };
const char *config_origin(char *out, const struct cmd_call *call, size_t option);

/* "DROVER_SERVE_HTTP", of CONFIG_ORIGIN_SIZE bytes. */
const char *config_variable(char *out, const struct cmd *c, const struct option *o);

#endif
