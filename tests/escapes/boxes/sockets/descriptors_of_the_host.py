# {"expect": "", "works": "/etc/passwd"}
# What it was given besides its streams: nothing. The kit's own pipe is what is left out.
import os
import stat


def attack():
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        if number > 2 and not stat.S_ISFIFO(mode):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return " ".join(found)


def control():
    kept = os.open("/etc/passwd", os.O_RDONLY)
    assert kept > 2
    return attack()
