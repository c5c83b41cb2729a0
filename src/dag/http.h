/* The room of the DAG: nodes, the scheduler, agents. */
#ifndef DAG_HTTP_H
#define DAG_HTTP_H

#include "rooms.h"

extern const struct room dag_room;

#endif
