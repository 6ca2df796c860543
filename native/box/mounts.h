/* What makes the tree of mounts of a box, at its start and when a layer is put under it. */
#ifndef BOX_MOUNTS_H
#define BOX_MOUNTS_H

#include <fcntl.h>
#include <linux/mount.h>

#include "box.h"

/* linux/mount.h and sys/mount.h cannot both be included. */
int mount(const char *, const char *, const char *, unsigned long, const void *);
int umount2(const char *, int);

enum { DETACH = 2, WALK = O_PATH | O_DIRECTORY | O_CLOEXEC };

/* A directory below `at`, made when it is missing: no link in the guest's layers may lead a mount elsewhere. -1: errno. */
int mounts_place(int at, const char *path, mode_t mode);
bool mounts_attach(int tree, int at);
/* Closes both. */
bool mounts_attach_closing(int tree, int at);

/* Opens what an overlay is made of, in a mount namespace that is only ours. `upper` and `work`: names in the box's directory. */
bool rootfs_open_layers(struct box *box, const struct texts *lower, const char *upper, const char *work);
/* Mounts it, as the root of the box, and stands in it. */
bool rootfs_overlay(const struct box *box);
/* Nothing lies over the root of this process. */
bool rootfs_alone(void);

#endif
