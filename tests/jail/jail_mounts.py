"""A host that shows a program directories under other paths; prints what came of it."""

from __future__ import annotations

import json
import os
import tempfile

from gloveport.engines.jail.command import spawn_jailed


def run(*argv: str, **options) -> tuple[int, str]:
    jailed = spawn_jailed(argv, **options)
    os.close(os.dup(jailed.stdin))
    try:
        said = b""
        while part := os.read(jailed.stdout, 4096):
            said += part
            if b"\n" in said:
                break
        jailed.kill() if b"\n" in said else None
        return jailed.wait(10), said.decode()
    finally:
        jailed.close()


def main() -> None:
    shown, written, hidden = (tempfile.mkdtemp() for _ in range(3))
    for folder in (shown, written, hidden):
        with open(f"{folder}/a.txt", "w") as file:
            file.write("inside\n")
        os.chmod(folder, 0o777)
        os.chmod(f"{folder}/a.txt", 0o666)
    options = {"mounts": {"/workspace": shown, "/neutral/cat": "/usr/bin/cat"}, "writable": {"/out": written}}
    script = "dd if=/dev/urandom of={} bs=1 count=1"
    result = {
        "read": run("/usr/bin/cat", "/workspace/a.txt", **options)[1],
        "hidden": run("/usr/bin/cat", f"{hidden}/a.txt", **options)[1],
        "own path": run("/usr/bin/cat", f"{shown}/a.txt", **options)[1],
        "directory": run("/usr/bin/pwd", directory="/workspace", **options)[1],
    }
    for name, path in (("write shown", "/workspace/b"), ("write out", "/out/b"), ("write root", "/b")):
        run("/usr/bin/dd", *script.format(path).split()[1:], **options)
        result[name] = any(os.path.exists(f"{folder}/b") for folder in (shown, written, "/"))
        if os.path.exists(f"{written}/b"):
            os.unlink(f"{written}/b")
    print(json.dumps(result))


main()
