# {"expect": "none", "outside": "found"}
import os

from kit import given


def attack():
    return "found" if any(given["prefix"] in value for value in os.environ.values()) else "none"
