# {"expect": "changed", "users": ["root"], "other": "unchanged"}
def changed():
    with open("/etc/passwd") as file:
        return "changed" if "intruder" in file.read() else "unchanged"


def attack():
    with open("/etc/passwd", "a") as file:
        file.write("intruder:x:0:0::/:/bin/sh\n")
    return changed()


def other():
    return changed()
