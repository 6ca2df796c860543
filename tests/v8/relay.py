"""A v8 worker that was taken over: an honest one serves the session until it is told to attack, and then it says whatever it wants."""

from __future__ import annotations

import socket
import threading

from gloveport.wire import frames

MIB = 1 << 20


class Relay:
    """What `gloveport.engines.deno.worker.DenoWorker` is to a link, with a thread between the two."""

    bell = None

    def __init__(self, worker):
        self.worker = worker
        self.pid = worker.pid
        self.sock, self.peer = socket.socketpair()
        self.attack = None
        """`attack(relay, request)`: called instead of answering the next request of `on`."""
        self.on = (frames.STEP,)
        self.closed = False
        self.thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self.thread.start()

    # what the host's side may do with a worker

    def interrupt(self):
        self.kill()

    def kill(self):
        self.worker.kill()
        self.sock.shutdown(socket.SHUT_RDWR)

    def ran_out_of_memory(self):
        return False

    def close(self):
        self.closed = True
        self.sock.close()
        self.worker.kill()
        self.thread.join(10)
        self.worker.close()
        assert not self.thread.is_alive()

    # the other end

    def send(self, *parts):
        for part in parts:
            self.peer.sendall(part)

    def _serve(self):
        asked, answered = frames.FrameDecoder(), frames.FrameDecoder()
        try:
            while data := self.peer.recv(MIB):
                asked.feed(data)
                while (frame := asked.next()) is not None:
                    if self.attack is not None and frame[0] in self.on:
                        attack, self.attack = self.attack, None
                        attack(self, frame[1])
                    else:
                        self.worker.sock.sendall(frames.encode_frame(*frame))
                        self._pass_on(answered)
        except OSError:
            pass  # the host has hung up, or the worker was killed
        finally:
            self.peer.close()

    def _pass_on(self, decoder):
        kind = None
        while kind != frames.REPLY:
            while (frame := decoder.next()) is None:
                if not (data := self.worker.sock.recv(MIB)):
                    raise OSError
                decoder.feed(data)
            kind = frame[0]
            self.peer.sendall(frames.encode_frame(*frame))
