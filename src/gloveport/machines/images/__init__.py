"""What a machine's root file system is made of.

A *layer* is a read-only file tree in a folder named after its content (`layers`). An *image* is a list of layers, top first, and what
the machine starts with (`manifests`). `host` makes the default one, `debian` one of Debian packages, `archives` and `oci` take what other
tools have made. `trees` copies, digests and removes trees that a guest has written, `unpacking` writes those that a stranger has packed:
both never leave the tree, whatever links it holds. `collection` removes what nothing uses any more.
"""
