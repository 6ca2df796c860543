# {"expect": {"namespace": "EPERM EPERM EPERM", "gvisor": "EPERM EPERM EPERM"}, "outside": "ENOENT ENOENT ENOENT", "as": "root"}
from kit import call, said


def attack():
    return " ".join(
        (
            said(lambda: call("swapon", b"/no/such/file", 0)),
            said(lambda: call("acct", b"/no/such/file")),
            said(lambda: call("quotactl", 0x80000100 - (1 << 32), b"/no/such/file", 0, None)),
        )
    )
