"""The networks of boxes: machines that outlive the program that made them, so that their gateway does as well.

One daemon serves all boxes of a user (`..daemon`). What each of them may reach is in a file of its directory (`plans`), which is
read again for each new attachment and after each change: a gateway that is killed has nothing that is not written down.

`policy` decides, `network` serves a box's sockets, `connections` carries (`requests` reads plain HTTP, `interception` opens TLS for
hosts that get a secret), `proxy` is the same for boxes that have no sockets to give, `previews` the way in. `journal` is the log.
"""
