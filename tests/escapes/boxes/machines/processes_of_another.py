# {"expect": "none", "outside": {"namespace": "found"}, "works": "found"}
# Outside, those of gVisor are not to be seen either.
import os
import subprocess

from kit import given


def attack():
    for place in [p for p in os.listdir("/proc") if p.isdigit()]:
        try:
            with open(f"/proc/{place}/cmdline", "rb") as file:
                if given["sleeps"].encode() in file.read().split(b"\0"):
                    return "found"
        except OSError:
            pass
    return "none"


def control():
    own = subprocess.Popen(["sleep", given["sleeps"]])
    try:
        return attack()
    finally:
        own.kill()
        own.wait()
