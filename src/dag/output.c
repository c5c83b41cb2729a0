#include "dag/runner.h"

static void mark(struct run_output *o, size_t cap_len)
{
    o->text.len = output_whole(o->text.p, o->text.len);
    buf_printf(&o->text, "\n[drover: cut here, only the first %zu bytes are kept]\n", cap_len);
    o->cut = true;
}

void output_put(struct run_output *o, const char *p, size_t len, size_t cap_len)
{
    o->total += len;
    if (o->cut)
        return;
    if (o->text.len + len <= cap_len) {
        buf_put(&o->text, p, len);
        return;
    }
    buf_put(&o->text, p, cap_len - o->text.len);
    mark(o, cap_len);
}

size_t output_whole(const char *p, size_t len)
{
    size_t at = p ? len : 0;

    while (at && len - at < 3 && ((unsigned char)p[at - 1] & 0xc0) == 0x80)
        at--;
    if (!at || (unsigned char)p[at - 1] < 0xc0)
        return len; /* ends with a complete character, or is not UTF-8 */
    at--;
    {
        unsigned char first = (unsigned char)p[at];
        size_t need = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

        return len - at >= need ? len : at;
    }
}
