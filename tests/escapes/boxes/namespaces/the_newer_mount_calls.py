# {"expect": {"namespace": "EPERM EPERM EPERM", "gvisor": "ENOSYS ENOSYS ENOSYS"}, "outside": "opened opened changed"}
import ctypes

from kit import call, said


def tree():
    call("open_tree", -100, b"/tmp", 1)  # OPEN_TREE_CLONE
    return "opened"


def made():
    call("fsopen", b"tmpfs", 0)
    return "opened"


def changed():
    call("mount_setattr", -100, b"/tmp", 0, (ctypes.c_uint64 * 4)(2, 0, 0, 0), 32)  # nosuid
    return "changed"


def attack():
    return " ".join(map(said, (tree, made, changed)))


def outside():
    call("unshare", 0x10000000 | 0x00020000)
    call("mount", b"none", b"/tmp", b"tmpfs", 0, None)
    return attack()
