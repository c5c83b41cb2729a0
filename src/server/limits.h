/* limits - of the ZooKeeper port: their metrics, and its share of the memory. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include <stdint.h>

struct context;
struct serve_options;

/* On the loop, when the metrics are open. */
void limits_open(struct context *h);

/* Of --memory; 0 without the port. */
int64_t limits_wire_memory(const struct serve_options *o);

#endif
