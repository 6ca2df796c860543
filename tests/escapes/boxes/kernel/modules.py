# {"expect": {"namespace": "EPERM EPERM EPERM", "gvisor": "EPERM EPERM EPERM"}, "outside": ["ENOEXEC EBADF ENOENT", "ENOSYS ENOSYS ENOSYS"], "as": "root"}
from kit import call, said


def attack():
    return " ".join(
        (
            said(lambda: call("init_module", b"", 0, b"")),
            said(lambda: call("finit_module", -1, b"", 0)),
            said(lambda: call("delete_module", b"no such module", 0o4000)),
        )
    )
