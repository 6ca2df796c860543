"""Registries of npm and JSR packages, and module files, on loopback."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import http.server
import io
import json
import tarfile
import threading
import time
from typing import Any

OLD = "2020-01-01T00:00:00.000Z"


def tarball(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class Registry:
    """Answers on one port: `/npm/…`, `/jsr/…`, and any file under its path. Notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.delay = 0.0
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self._packuments: dict[str, dict[str, Any]] = {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                time.sleep(registry.delay)
                if self.path in registry.redirects:
                    self.send_response(302)
                    self.send_header("Location", registry.redirects[self.path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = registry.files.get(self.path)
                self.send_response(404 if body is None else 200)
                kind = "application/typescript" if self.path.endswith(".ts") else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def npm(
        self,
        name: str,
        version: str,
        code: str,
        *,
        age: str = OLD,
        dependencies: dict[str, str] | None = None,
        parts: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Publishes a version: `index.js` with that code, which is its `main` unless `more` says otherwise, and other files."""
        manifest = {"name": name, "version": version, "main": "index.js", "dependencies": dependencies or {}, **more}
        data = tarball({"package.json": json.dumps(manifest), "index.js": code, **(parts or {})})
        place = f"/npm/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self.files[place] = data
        found = self._packuments.setdefault(name, {"name": name, "dist-tags": {}, "versions": {}, "time": {}})
        found["versions"][version] = {
            **manifest,
            "dist": {
                "tarball": self.url + place,
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode(),
                "shasum": hashlib.sha1(data).hexdigest(),
            },
        }
        found["dist-tags"]["latest"] = version
        found["time"][version] = age
        self.files[f"/npm/{name}"] = self.files[f"/npm/{name.replace('/', '%2F')}"] = json.dumps(found).encode()
        self.files[f"/npm/{name.replace('/', '%2f')}"] = self.files[f"/npm/{name}"]

    def jsr(self, name: str, version: str, code: str, *, parts: dict[str, str] | None = None) -> None:
        """Publishes a version: `mod.ts` with that code, which is all that it exports, and other files."""
        modules = {f"/{path}": text.encode() for path, text in {"mod.ts": code, **(parts or {})}.items()}
        for path, data in modules.items():
            self.files[f"/jsr/{name}/{version}{path}"] = data
        scope, _, short = name.partition("/")
        meta = {"scope": scope[1:], "name": short, "latest": version, "versions": {version: {"createdAt": OLD}}}
        self.files[f"/jsr/{name}/meta.json"] = json.dumps(meta).encode()
        version_meta = {
            "manifest": {
                path: {"size": len(data), "checksum": f"sha256-{hashlib.sha256(data).hexdigest()}"}
                for path, data in modules.items()
            },
            "exports": {".": "./mod.ts"},
        }
        self.files[f"/jsr/{name}/{version}_meta.json"] = json.dumps(version_meta).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def just_now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
