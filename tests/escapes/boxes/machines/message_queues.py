# {"expect": "there", "other": "ENOENT", "drivers": ["namespace"]}
from kit import call


def attack():
    call("mq_open", b"intruder", 0o102, 0o666, None)
    call("mq_open", b"intruder", 2, 0, None)
    return "there"


def other():
    call("mq_open", b"intruder", 2, 0, None)
    return "there"
