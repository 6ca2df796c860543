# {"expect": {"namespace": "EPERM", "gvisor": "ENOTSUP"}, "works": "set"}
import os
import tempfile


def attack():
    with tempfile.NamedTemporaryFile() as file:
        os.setxattr(file.name, "security.capability", bytes.fromhex("0100000200002000000000000000000000000000"))
    return "set"


def control():
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0o755)
    return "set"
