/* limits - metrics of the limits of the ZooKeeper port. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

struct context;

/* On the loop, when the metrics are open. */
void limits_open(struct context *h);

#endif
