"""Servers of the world: those of `..world`, and a file server by name for package managers."""

from __future__ import annotations

import http.server
import os
import ssl
import threading

import world

FILES = "93.184.216.40"


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/echo"):
            body = "".join(f"{name}: {value}\n" for name, value in self.headers.items()).encode() + self.path.encode()
            if self.path.startswith("/echo-not"):
                body = b"seen: " + str("real-value-of-it" in body.decode()).encode()
            if self.path.startswith("/echo-basic"):
                import base64

                pair = base64.b64decode((self.headers.get("authorization") or "").removeprefix("Basic ")).decode()
                body = b"seen: " + str(pair == "user:real-value-of-it").encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        super().do_GET()


def start(folder, given):
    world.NAMES.update({name: [FILES] for name in given["files"]})
    world.World(os.path.join(folder, "log"), given["certificate"])
    for port, secure in ((8000, False), (8001, True)):
        served = http.server.ThreadingHTTPServer(
            ("0.0.0.0", port), lambda *args: Files(*args, directory=given["directory"])
        )
        served.daemon_threads = True
        if secure:
            if not given["certificate"]:
                continue
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(given["certificate"])
            served.socket = context.wrap_socket(served.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=served.serve_forever, daemon=True).start()
    return world.resolve
