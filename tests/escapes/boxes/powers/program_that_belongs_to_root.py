# {"expect": "1000", "users": ["root"], "as": "root", "works": "0", "where": "root"}
# An ordinary user of the host has one id to give, and so nobody else to become.
# Set-uid: a copy that would make whoever runs it root.
import os
import shutil
import subprocess
import tempfile


def attack():
    folder = tempfile.mkdtemp(dir="/var")
    os.chmod(folder, 0o755)
    program = shutil.copy("/usr/bin/id", folder)
    os.chmod(program, 0o4755)
    return subprocess.run([program, "-u"], user=1000, capture_output=True, text=True).stdout.strip()


def control():
    return subprocess.run(["/usr/bin/id", "-u"], capture_output=True, text=True).stdout.strip()
