# {"expect": {"namespace": "EPERM", "gvisor": "works"}, "outside": "works"}
# The keys of gVisor are its own.
from kit import call


def attack():
    call("keyctl", 0, -3, 1, 0, 0)  # the keyring of the session, made if there is none
    return "works"
