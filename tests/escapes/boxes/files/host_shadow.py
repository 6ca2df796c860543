# {"expect": "ENOENT", "outside": "read", "as": "root"}
from kit import read


def attack():
    return read("/etc/shadow")
