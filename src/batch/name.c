/*
 * Ids are exact: a name that a foreign client wrote and that only resembles an id is not one; fsck
 * reports it.
 */
#include "batch/name.h"

#include <ctype.h>

#include "keeper/path.h"

int64_t batch_id_number(const char *prefix, struct str id)
{
    int64_t number = 0;
    if (id.len != BATCH_ID_LEN || !str_starts(id, str_of(prefix)))
        return -1;
    for (size_t i = 3; i < id.len; i++) {
        if (!isdigit((unsigned char)id.p[i]))
            return -1;
        number = number * 10 + (id.p[i] - '0');
    }
    return number;
}

void batch_id(const char *prefix, int64_t number, char ret_id[BATCH_ID_LEN + 1])
{
    memcpy(ret_id, prefix, 3);
    for (int i = BATCH_ID_LEN - 1; i >= 3; i--, number /= 10)
        ret_id[i] = (char)('0' + number % 10);
    ret_id[BATCH_ID_LEN] = '\0';
}

int64_t batch_entry_key(const char *prefix, bool priority, struct str entry)
{
    if (!priority)
        return batch_id_number(prefix, entry);
    if (entry.len != BATCH_ENTRY_LEN || !isdigit((unsigned char)entry.p[0]) ||
        !isdigit((unsigned char)entry.p[1]) || entry.p[2] != '-')
        return -1;
    int64_t number = batch_id_number(prefix, (struct str){entry.p + 3, entry.len - 3});
    if (number < 0)
        return -1;
    return batch_key((entry.p[0] - '0') * 10 + entry.p[1] - '0', number);
}

void batch_entry(const char *prefix, bool priority, int64_t key,
                 char ret_entry[BATCH_ENTRY_LEN + 1])
{
    int64_t first = key / BATCH_ID_COUNT;
    if (priority) {
        ret_entry[0] = (char)('0' + first / 10 % 10);
        ret_entry[1] = (char)('0' + first % 10);
        ret_entry[2] = '-';
    }
    batch_id(prefix, key % BATCH_ID_COUNT, ret_entry + (priority ? 3 : 0));
}

int batch_name_check(const char *what, struct str text, struct err_info *ret_error)
{
    char path[BATCH_NAME_MAX + 1] = "/";
    if (text.len == 0)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is empty", what);
    if (text.len >= BATCH_NAME_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is longer than %d bytes", what,
                       BATCH_NAME_MAX - 1);
    memcpy(path + 1, text.p, text.len);
    if (memchr(text.p, '/', text.len))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s has a '/' in it", what);
    if (!path_is_valid((struct str){path, text.len + 1}, false))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s cannot be the name of a node", what);
    return 0;
}

void batch_name_flatten(struct str text, char *ret_name)
{
    for (size_t i = 0; i < text.len; i++) {
        i += text.p[i] == ':' && i + 1 < text.len && text.p[i + 1] == '/';
        *ret_name++ = text.p[i] == '/' ? '_' : text.p[i];
    }
    *ret_name = '\0';
}

char *batch_name_lower(struct arena *a, struct str name)
{
    char *lower = arena_text(a, name);
    for (char *p = lower; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return lower;
}
