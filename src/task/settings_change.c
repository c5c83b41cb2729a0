#include "task/settings_change.h"

#include "task/settings_json.h"

static int make_op(struct settings_change *w, bool exists)
{
    CLEANUP(buf_release) struct buf data = {0};
    char path[SETTINGS_PATH_SIZE];
    settings_path(w->pattern, path);
    if (!w->members && !exists)
        return DROVER_NO_NODE;
    settings_put_node(&data, w->pattern, &w->settings);
    w->op = (struct keeper_op){
        .kind = !w->members ? KEEPER_DELETE
                : exists    ? KEEPER_SET
                            : KEEPER_CREATE,
        .version = exists ? w->settings.version : KEEPER_ANY_VERSION,
        .path = {arena_text(w->arena, str_of(path)), strlen(path)},
        .data = !w->members ? (struct str){0}
                            : (struct str){arena_text(w->arena, buf_str(&data)), data.len}};
    w->settings.version = exists ? w->settings.version + 1 : 0;
    return 0;
}

int settings_change_prepare(struct settings_change *w, struct store *s)
{
    const struct settings_table *table = store_settings(s);
    const struct settings_entry *entry = settings_table_find(table, w->pattern);
    w->settings = entry ? entry->settings : *settings_table_of(table, w->pattern);
    if (w->members)
        TRY(settings_read(w->members, &w->settings, &w->wrong_field, &w->wrong));
    w->settings.dead.p = arena_text(w->arena, w->settings.dead); /* it outlives the old entry */
    if (w->settings.dead.len && settings_match(w->pattern, w->settings.dead)) {
        w->wrong_field = "dead";
        return err_set(&w->wrong, DROVER_BAD_ARGUMENT,
                       "dead: the dead tasks of a group cannot go to itself");
    }
    return make_op(w, entry != NULL);
}

void settings_change_settle(const struct settings_change *w, struct store *s)
{
    store_set_settings(s, w->pattern, w->members ? &w->settings : NULL);
}
