#include "http/transport_own.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/place.h"
#include "base/secret.h"
#include "http/transport.h"

#define UNIX "unix:"

const char *transport_own_servers(struct buf *b)
{
    struct stat st;
    buf_put_str(b, STR(UNIX));
    if (!place_socket(b) || stat(buf_text(b) + strlen(UNIX), &st) || !S_ISSOCK(st.st_mode))
        b->len = 0;
    buf_printf(b, "%s" TRANSPORT_SERVER_DEFAULT, b->len ? "," : "");
    return buf_text(b);
}

const char *transport_own_token(char *line, size_t size)
{
    CLEANUP(buf_release) struct buf path = {0};
    uid_t listener;
    if (!place_port_user(TRANSPORT_PORT_DEFAULT, &listener) ||
        (listener != 0 && listener != geteuid()))
        return NULL;
    place_data(&path);
    buf_printf(&path, "/" PLACE_ADMIN_TOKEN);
    return secret_read(buf_text(&path), line, size, NULL) || !*line ? NULL : line;
}
