# {"expect": "ENOENT", "outside": "read"}
from kit import given, read


def attack():
    return read(given["file"])
