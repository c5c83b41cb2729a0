/* Ids of sessions: the number of the session and its password, in hex. */
#include <stdio.h>

#include "server/sessions.h"

void session_id_write(const struct keeper_session *s, char *to)
{
    to += snprintf(to, 17, "%016llx", (unsigned long long)s->id);
    for (int i = 0; i < KEEPER_PASSWORD_LEN; i++)
        to += snprintf(to, 3, "%02x", (unsigned char)s->password[i]);
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool session_id_read(struct str id, struct keeper_session *ret_session)
{
    unsigned char bytes[8 + KEEPER_PASSWORD_LEN];
    uint64_t number = 0;

    if (id.len != SESSION_ID_LEN)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        int high = nibble(id.p[2 * i]), low = nibble(id.p[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    for (int i = 0; i < 8; i++)
        number = number << 8 | bytes[i];
    ret_session->id = (int64_t)number;
    memcpy(ret_session->password, bytes + 8, KEEPER_PASSWORD_LEN);
    return true;
}
