# {"expect": {"namespace": "EACCES", "gvisor": "EROFS", "gvisor/ordinary": "EACCES"}, "users": ["root"], "works": "written"}
def attack():
    with open("/usr/bin/env", "ab") as file:
        file.write(b"\n")
    return "written"


def control():
    with open("/usr/local/bin/env", "ab") as file:
        file.write(b"\n")
    return "written"
