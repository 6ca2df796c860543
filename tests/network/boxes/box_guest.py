"""What stands in for a box: a network namespace of its own, in which commands are run as they come in. Started by `fixtures`.

The root file system is this machine's, but for the files by which names are resolved.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys

from gloveport.engines.jail import network, seccomp, syscalls

FILES = {
    "/etc/resolv.conf": "nameserver 127.0.0.1\nsearch .\noptions timeout:5 attempts:2\n",
    "/etc/nsswitch.conf": "hosts: files dns\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost\n",
}
NEW_NET, NEW_MOUNTS, BIND, PRIVATE = 0x4000_0000, 0x2_0000, 4096, 1 << 18 | 1 << 14


def main():
    control, folder, watched = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "watched"
    syscalls.call("unshare", NEW_NET | NEW_MOUNTS)
    syscalls.call("mount", b"none", b"/", b"none", PRIVATE, None)
    for path, text in FILES.items():
        source = os.path.join(folder, os.path.basename(path))
        with open(source, "w") as file:
            file.write(text)
        os.chmod(source, 0o644)
        syscalls.call("mount", source.encode(), os.path.realpath(path).encode(), b"none", BIND, None)
    sockets = network.open_sockets()
    syscalls.call("prctl", 38, 1, 0, 0, 0)
    if watched:
        sockets.watcher = seccomp.watch("connect")
        assert sockets.watcher >= 0
    fds = sockets.descriptors()
    with socket.socket(fileno=control) as sock:
        sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))])
    for fd in fds:
        os.close(fd)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            done = subprocess.run(
                order["argv"],
                capture_output=True,
                timeout=order["timeout"],
                env=order["env"],
                cwd=order["cwd"],
                stdin=subprocess.DEVNULL,
                check=False,
            )
            said = [done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")]
        except subprocess.TimeoutExpired as error:
            said = [None, str(error.stdout), str(error.stderr)]
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
