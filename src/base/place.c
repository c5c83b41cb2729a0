#include "base/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A directory from the environment: relative ones do not count, by the XDG specification. */
static const char *directory_of(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] == '/' ? value : NULL;
}

void place_data(struct buf *b)
{
    const char *state = directory_of("XDG_STATE_HOME"), *home = directory_of("HOME");
    if (geteuid() == 0)
        buf_printf(b, "/var/lib/drover");
    else if (state)
        buf_printf(b, "%s/drover", state);
    else
        buf_printf(b, "%s/.local/state/drover", home ? home : "");
}

bool place_socket(struct buf *b)
{
    const char *runtime = geteuid() == 0 ? "/run" : directory_of("XDG_RUNTIME_DIR");
    if (runtime)
        buf_printf(b, "%s/drover.sock", runtime);
    return runtime;
}

bool place_port_user(uint16_t port, uid_t *ret_user)
{
    static const char loopback[] = "0100007F", listening[] = "0A"; /* 127.0.0.1, as Linux has it */
    FILE *in = fopen("/proc/net/tcp", "re");
    char line[512];
    bool found = false;
    while (in && !found && fgets(line, sizeof line, in)) {
        char address[9], state[3];
        unsigned at, user;
        found = sscanf(line, " %*u: %8[0-9A-F]:%x %*[0-9A-F]:%*x %2[0-9A-F] %*s %*s %*s %u",
                       address, &at, state, &user) == 4 &&
                at == port && !strcmp(state, listening) && !strcmp(address, loopback);
        if (found)
            *ret_user = (uid_t)user;
    }
    if (in)
        fclose(in);
    return found;
}
