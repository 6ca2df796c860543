"""A worker that was taken over: it serves an honest guest until it is told to attack, and then says whatever it wants."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading

from gloveport import AgentSandbox, AsyncAgentSandbox
from gloveport.engines.wasm.engine import WasmEngine, _spares
from gloveport.engines.wasm.guest import Guest
from gloveport.engines.wasm.link import ProcessLink
from gloveport.wire import frames

MIB = 1 << 20


def reply(*messages, status=0, ns=1000, reads=0):
    """An `r` frame. A message is a dict, or bytes as they are."""
    output = b""
    for message in messages:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        output += struct.pack("<I", len(body)) + body
    return raw_reply(output, status=status, ns=ns, reads=reads)


def raw_reply(output, *, status=0, ns=1000, reads=0):
    return frames.encode_frame(frames.REPLY, struct.pack("<BQI", status, ns, reads) + output)


class Puppet:
    """What `gloveport.engines.wasm.handle.Worker` is to a link, with a thread instead of a process at the other end."""

    pid = 4_000_000

    def __init__(self):
        self.sock, self.peer = socket.socketpair()
        self.guest = Guest(_spares().module, memory_limit=64 * MIB)
        self.attack = None
        """`attack(puppet, request)`: called instead of answering the next request of `on`."""
        self.on = frames.STEP
        self.tamper = None
        """`tamper(status, ns, reads, output)` → the frame to send for an honest answer to a step."""
        self.closed = self.killed = False
        self.requests = []
        self.thread = threading.Thread(target=self._serve, name="puppet", daemon=True)
        self.thread.start()

    # what the host's side may do with a worker

    def interrupt(self):
        self.guest.interrupt()

    def kill(self):
        self.killed = True
        self.sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.closed = True
        self.sock.close()
        self.thread.join(10)
        self.guest.close()
        assert not self.thread.is_alive()

    # the other end

    def send(self, *parts):
        for part in parts:
            self.peer.sendall(part)

    def _serve(self):
        decoder = frames.FrameDecoder()
        try:
            while data := self.peer.recv(MIB):
                decoder.feed(data)
                while (frame := decoder.next()) is not None:
                    self._take(*frame)
        except OSError:
            pass  # the host has hung up
        finally:
            self.peer.close()

    def _take(self, kind, body):
        self.requests.append(chr(kind))
        if self.attack is not None and kind == self.on:
            attack, self.attack = self.attack, None
            attack(self, body)
        elif kind in (frames.STEP, frames.BATCH):
            answer = self.guest.step(body) if kind == frames.STEP else self.guest.batch(parts(body, 4))
            honest = (answer.status, answer.ns, answer.clock_reads, answer.output)
            if self.tamper is not None and kind == frames.STEP:
                self.send(self.tamper(*honest))
            else:
                self.send(raw_reply(answer.output, status=answer.status, ns=answer.ns, reads=answer.clock_reads))
        elif kind == frames.DUMP:
            self.send(frames.encode_frame(frames.IMAGE, self.guest.dump(body or None)))
        elif kind == frames.LOAD:
            self.guest.load(parts(body, 1))
            self.send(reply())


def parts(body, at):
    items = []
    while at < len(body):
        (size,) = struct.unpack_from("<I", body, at)
        items.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return items


class Host:
    """Blocking or awaiting sessions behind one blocking face. The first guests are puppets, as many as planned; then real ones."""

    def __init__(self, monkeypatch, awaiting):
        self.awaiting = awaiting
        self.loop = asyncio.new_event_loop() if awaiting else None
        self.plan = 1
        self.puppets = []
        self.arm = None
        """Called with each new puppet."""
        self.sessions = []
        really = WasmEngine.open

        def open_guest(engine):
            if len(self.puppets) >= self.plan:
                return really(engine)
            puppet = Puppet()
            self.puppets.append(puppet)
            if self.arm is not None:
                self.arm(puppet, len(self.puppets))
            return ProcessLink(puppet, engine.max_memory)

        async def open_guest_async(engine):
            return open_guest(engine)

        monkeypatch.setattr(WasmEngine, "open", open_guest)
        monkeypatch.setattr(WasmEngine, "open_async", open_guest_async)

    def session(self, tools, **options):
        options = {"isolation": "inline", "timeout": 0.3, **options}
        if self.awaiting:
            session = self.wait(AsyncAgentSandbox.create(tools, **options))
        else:
            session = AgentSandbox(tools, **options)
        self.sessions.append(session)
        return session

    def wait(self, value):
        return self.loop.run_until_complete(value) if asyncio.iscoroutine(value) else value

    def execute(self, session, code):
        return self.wait(session.execute(code))

    def close(self):
        for session in self.sessions:
            self.wait(session.close())
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
