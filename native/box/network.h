/* The network of a box with a gateway. */
#ifndef BOX_NETWORK_H
#define BOX_NETWORK_H

#include "box.h"

/* In the namespace, once `lo` is up: routes and sockets, which go over the socket `to`. False with errno. */
bool network_give(int to);
/* In the namespace, while /proc is the host's: the box's user may serve any port. */
bool network_open_low_ports(void);

#endif
