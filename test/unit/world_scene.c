#include "world_scene.h"

#include "base/mem.h"

static void on_note(void *arg, const char *line)
{
    buf_printf(arg, "%s\n", line);
}

void scene_open(struct scene *s)
{
    struct world_options wo = {.note = on_note, .arg = &s->notes};

    *s = (struct scene){0};
    stand_open(&s->stand);
    s->k = stand_connect(&s->stand);
    assert_int_equal(world_init(s->k, STR("w1"), NULL), 0);
    assert_int_equal(world_open(s->k, STR("w1"), &wo, &s->w, NULL), 0);
}

void scene_close(struct scene *s)
{
    world_close(s->w);
    keeper_close(s->k);
    stand_close(&s->stand);
    arena_release(&s->a);
    buf_release(&s->notes);
}

static void dump_below(struct keeper *k, const char *path, struct buf *out)
{
    struct keeper_names names = {0};
    struct buf data = {0};

    if (path[1] && !keeper_get(k, path, &data, NULL)) {
        if (!strncmp(path, "/zoott_w/", 9))
            data.len = 0;
        buf_printf(out, "%s %.*s\n", path, (int)data.len, data.p ? data.p : "");
    }
    buf_release(&data);
    if (keeper_children(k, path, &names, NULL))
        return;
    for (size_t i = 0; i < names.count; i++) {
        struct buf child = {0};

        buf_printf(&child, "%s/%s", path[1] ? path : "", names.names[i]);
        if (strcmp(buf_text(&child), "/zookeeper") && strcmp(buf_text(&child), "/.drover-tags"))
            dump_below(k, buf_text(&child), out);
        buf_release(&child);
    }
    keeper_names_release(&names);
}

char *dump(struct scene *s)
{
    struct buf out = {0};
    char *text;

    dump_below(s->k, "/", &out);
    text = arena_text(&s->a, (struct str){out.p ? out.p : "", out.len});
    buf_release(&out);
    return text;
}

int queue(struct scene *s, const char *name, const char *type, const char *data, const char *parent,
          const char *parent_type)
{
    struct world_task task = {str_of(name), str_of(type), str_of(data)};
    struct world_parent p = {str_of(parent ? parent : ""), str_of(parent ? parent_type : "")};
    struct world_paths paths;
    int err = world_queue(s->w, s->k, &s->a, &task, parent ? &p : NULL, NULL, NULL, &paths, &s->e);

    return err ? err : (int)paths.count;
}

int queue_limited(struct scene *s, const char *name, const char *type, const char *data,
                  int64_t attempts)
{
    struct world_task task = {str_of(name), str_of(type), str_of(data), attempts};
    struct world_paths paths;
    int err = world_queue(s->w, s->k, &s->a, &task, NULL, NULL, NULL, &paths, &s->e);

    return err ? err : (int)paths.count;
}

const char *claim_with(struct scene *s, struct keeper *k, const char *type)
{
    struct world_claim c;
    struct str t = str_of(type);
    int claimed = world_claim(s->w, k, &s->a, &t, 1, true, &c, &s->e);

    assert_true(claimed >= 0);
    return claimed ? arena_text(&s->a, c.key) : "none";
}

int complete(struct scene *s, const char *key)
{
    bool again;
    int err = world_complete(s->w, s->k, str_of(key), &again, &s->e);

    return err ? err : again;
}

int fail_task(struct scene *s, const char *key, const char *error, bool final)
{
    bool failed = false;
    int err = world_fail(s->w, s->k, str_of(key), str_of(error), final, &failed, &s->e);

    return err ? err : failed;
}
