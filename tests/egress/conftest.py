"""Servers on loopback that answer as a test says, and callers of both kinds."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import re
import socket
import ssl
import threading

import pytest

from gloveport import http_fetch


class Server:
    """Answers every connection by `answer(request, connection)`, which gives bytes or sends them itself."""

    def __init__(self, answer, context=None):
        self.requests = []
        self._answer = answer
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.closing = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, path="/", host="127.0.0.1"):
        return f"{'https' if self._context else 'http'}://{host}:{self.port}{path}"

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection):
        connection.settimeout(10)
        with contextlib.suppress(OSError), contextlib.closing(connection):
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            with contextlib.closing(connection):
                request = self._read(connection)
                self.requests.append(request)
                answer = self._answer(request, connection)
                if answer:
                    connection.sendall(answer)

    @staticmethod
    def _read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            data += more
            if not more or data.startswith(b"\x16"):  # the end, or somebody who speaks TLS
                return data
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        while length and len(body) < int(length[1]):
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self):
        self.closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


def reply(body=b"hello", status="200 OK", **headers):
    """An answer with a length."""
    fields = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirect(location, status="302 Found"):
    return reply(b"", status, location=location)


def head_of(request):
    """Request line and fields of a request that a server got."""
    lines = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    return lines[0], dict(line.split(": ", 1) for line in lines[1:])


@pytest.fixture
def serve():
    """Starts servers."""
    with contextlib.ExitStack() as stack:

        def start(answer, context=None):
            function = answer if callable(answer) else lambda request, connection: answer
            return stack.enter_context(contextlib.closing(Server(function, context)))

        yield start


@pytest.fixture(params=["blocking", "asyncio"])
def call(request):
    """Calls a tool as a blocking session does, and as one on asyncio does."""
    if request.param == "blocking":
        return lambda tool, *arguments: tool(*arguments)
    return lambda tool, *arguments: asyncio.run(tool.aio(*arguments))


@pytest.fixture
def make():
    """A tool for a server on loopback, by address."""

    def made(server, *more, **options):
        return http_fetch([f"127.0.0.1:{server.port}", *more], **{"schemes": ("http",), **options})

    return made


def resolving(*answers):
    """A resolver that gives each of the answers once, the last for ever, and counts."""
    left = list(answers)

    def resolver(host, port):
        resolver.asked.append(host)
        return left.pop(0) if len(left) > 1 else left[0]

    resolver.asked = []
    return resolver


class Authority:
    """A certificate authority of this test run."""

    def __init__(self, folder):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        self._x509, self._hashes, self._ec, self._oid = x509, hashes, ec, NameOID
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = self._named("test authority")
        self._certificate = self._build(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0), [])
        self.context = ssl.create_default_context(cadata=self._pem(self._certificate))

    def _named(self, text):
        return self._x509.Name([self._x509.NameAttribute(self._oid.COMMON_NAME, text)])

    def _build(self, name, key, constraints, names, days=1):
        now = dt.datetime.now(dt.timezone.utc)
        x509 = self._x509
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=10))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(constraints, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if constraints.ca:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, self._hashes.SHA256())

    @staticmethod
    def _pem(certificate):
        from cryptography.hazmat.primitives.serialization import Encoding

        return certificate.public_bytes(Encoding.PEM).decode()

    def server_context(self, *names, days=1):
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        x509 = self._x509
        key = self._ec.generate_private_key(self._ec.SECP256R1())
        alternatives = [
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names
        ]
        leaf = self._build(
            self._named(names[0]), key, x509.BasicConstraints(ca=False, path_length=None), alternatives, days
        )
        path = self._folder / f"{names[0]}{days}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        path.write_text(private + self._pem(leaf))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    pytest.importorskip("cryptography")
    return Authority(tmp_path_factory.mktemp("authority"))
