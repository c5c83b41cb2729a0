/*
 * stand - a store for one test, and sessions on it: the embedded keeper in memory; or, if
 * DROVER_TEST_ZK names one, a real ZooKeeper, below a node of its own.
 */
#ifndef TEST_KEEPER_STAND_H
#define TEST_KEEPER_STAND_H

#include "keeper/local/local.h"

struct stand {
    struct local *local; /* NULL on ZooKeeper */
    char url[1024];
};

bool stand_on_zookeeper(void);

/* They fail the test if they cannot. The test closes sessions before the stand. */
void stand_open(struct stand *s);
struct keeper *stand_connect(struct stand *s);
void stand_close(struct stand *s);

#endif
