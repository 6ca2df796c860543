# {"expect": "ESRCH", "outside": "sent"}
import os

from kit import given


def attack():
    os.kill(given["pid"], 0)
    return "sent"
