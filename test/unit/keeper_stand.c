#include "keeper_stand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keeper/zookeeper/zookeeper.h"

/* libzookeeper_mt itself leaks when a handle closes at certain moments. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt";
}

bool stand_on_zookeeper(void)
{
    return getenv("DROVER_TEST_ZK") != NULL;
}

/* All on one server, zk://h1:1/stand/PID/N: a session sees at once what the one before did. */
void stand_open(struct stand *s)
{
    static int count;
    const char *servers = getenv("DROVER_TEST_ZK");

    *s = (struct stand){0};
    if (servers)
        snprintf(s->url, sizeof s->url, "%.*s/stand/%d/%d", (int)strcspn(servers, ","), servers,
                 (int)getpid(), count++);
    else
        assert_int_equal(local_open(&(struct local_options){.mode = LOCAL_NONE}, &s->local, NULL),
                         0);
}

struct keeper *stand_connect(struct stand *s)
{
    struct keeper_options o = {0};
    struct err_info e;
    struct keeper *k;

    if (s->local)
        assert_int_equal(local_connect(s->local, &o, &k), 0);
    else
        assert_int_equal(zookeeper_connect(s->url, NULL, &o, &k, &e), 0);
    return k;
}

void stand_close(struct stand *s)
{
    if (s->local)
        local_close(s->local);
}
