# {"expect": "none", "outside": {"namespace": "found"}, "works": "found"}
# Outside, those of gVisor are not to be seen either.
import os
import subprocess
import time

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
        while attack() == "none":  # until it has become that program
            time.sleep(0.01)
        return "found"
    finally:
        own.kill()
        own.wait()
