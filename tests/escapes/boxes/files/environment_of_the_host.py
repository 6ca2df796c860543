# {"expect": "none", "outside": "found"}
import os

from kit import given


def attack():
    prefix = given["prefix"].encode()
    for place in [p for p in os.listdir("/proc") if p.isdigit()]:
        try:
            with open(f"/proc/{place}/environ", "rb") as file:
                if prefix in file.read():
                    return "found"
        except OSError:
            pass
    return "none"
