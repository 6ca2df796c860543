"""One connection out of a box: whom it is for, what it asks for where that can be seen, and its line in the log."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Generator
from typing import Any, Final

from ....errors import EgressDeniedError, GloveportError, HttpFetchError
from ...connecting import connect_async
from ...evaluator import Destination
from .. import heads
from ..connections import Connections
from ..limits import GatewayLimits
from ..splicing import Splice, reset
from .interception import Interception
from .journal import Journal, NetworkLogRow
from .policy import BoxPolicy
from .requests import RequestHead, answer, parse_request, response_status, url_of

__all__ = ("BoxConnections", "say")

_READ: Final = 16 * 1024
_ACCESS_DENIED: Final = b"\x15\x03\x03\x00\x02\x02\x31"
"""The TLS alert `access_denied` (RFC 8446, 6): programs report it at once, where they try a broken connection again."""
_LEAVING: Final = 2.0


async def say(sock: socket.socket, last: bytes) -> None:
    """Sends that, and ends the connection so that it arrives: a broken connection takes back what was not read."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LEAVING):
            await loop.sock_sendall(sock, last)
            sock.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(sock, _READ):
                pass


class BoxConnections(Connections):
    """The connections of one box."""

    policy: BoxPolicy

    def __init__(self, policy: BoxPolicy, limits: GatewayLimits, journal: Journal) -> None:
        super().__init__(policy, limits)
        self.journal = journal
        self.interception = Interception()
        policy.opens = self.interception.opens
        self._serving: dict[asyncio.Task[Any], tuple[Destination, NetworkLogRow]] = {}

    def recheck(self) -> None:
        """Ends the connections that the rules, which are others now, do not allow any more."""
        for task, (destination, row) in list(self._serving.items()):
            if not self.policy.still(destination, row.dst_ip):
                task.cancel()

    @contextlib.contextmanager
    def serving(self, destination: Destination, row: NetworkLogRow) -> Generator[None]:
        """While this lasts, the current task ends when the rules do not allow this any more."""
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = destination, row
        try:
            yield
        finally:
            self._serving.pop(task, None)

    def asks(self, destination: Destination) -> None:
        """The current task serves a request, which was allowed: from now on it is that which has to be."""
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = destination, self._serving[task][1]

    # ── what never becomes one ───────────────────────────────────────────────────────────────────────────────────────

    def blocked(self, host: str, port: int) -> None:
        """Logs a refusal, for the reason that the policy knows."""
        decisions = self.policy.evaluator.decisions
        rule = decisions[-1].rule if decisions and (decisions[-1].host, decisions[-1].port) == (host, port) else ""
        reason = self.policy.why(host, port) or ""
        self.journal.note(verdict="blocked", host=host, port=port, match_rule=rule, reason=reason)

    def failed(self, destination: Destination) -> None:
        """Logs a connection that was allowed and came to nothing."""
        row = self.row(destination)
        row.verdict, row.reason = "failed", self._why(destination)
        self.journal.end(row)

    def start(self, sock: socket.socket, host: str, port: int) -> None:
        """Takes a connection that was meant for there."""
        destination = self.policy.intended(host, port)
        if destination is None:
            self.blocked(host, port)
            self._turn_away(sock, port)
        elif self.full:
            what = f"{self.limits.connections} connections at a time" if self._left >= 0 else "so many bytes"
            self.policy.refused(destination, f"this sandbox may have {what}, and no more")
            self.blocked(destination.host, port)
            self._turn_away(sock, port)
        else:
            self.adopt(self._serve(sock, destination))

    def _turn_away(self, sock: socket.socket, port: int) -> None:
        if port == 443 and not self.full:
            self.adopt(self._closed(sock, _ACCESS_DENIED))
        else:
            reset(sock)

    @staticmethod
    async def _closed(sock: socket.socket, last: bytes) -> None:
        try:
            await say(sock, last)
        finally:
            sock.close()

    # ── what does ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _serve(self, sock: socket.socket, destination: Destination) -> None:
        row = self.row(destination)
        try:
            await self.serve(sock, destination, row)
        finally:
            reset(sock)
            self.journal.end(row)

    def row(self, destination: Destination) -> NetworkLogRow:
        """A line for the log of a connection there."""
        rule = self.policy.evaluator.weigh(destination).rule
        return self.journal.begin(
            host=destination.host, port=destination.port, scheme=destination.scheme, match_rule=rule
        )

    async def serve(self, sock: socket.socket, destination: Destination, row: NetworkLogRow) -> None:
        """Carries a connection whose destination the rules have let pass."""
        with self.serving(destination, row):
            await self._carry(sock, destination, row)

    async def _carry(self, sock: socket.socket, destination: Destination, row: NetworkLogRow) -> None:
        if destination.scheme == "http":
            await self._http(sock, destination, row)
            return
        head = b""
        if destination.scheme == "https":
            begun = await self._named(sock, destination, row)
            if begun is None:
                if row.reason:
                    await say(sock, _ACCESS_DENIED)
                return
            head = begun
            if self.interception.opens(destination):
                await self.interception.serve(self, sock, destination, head, row)
                return
        upstream = await self.reach(destination, row)
        if upstream is not None:
            await self.carried(sock, upstream, head, row)

    async def _named(self, sock: socket.socket, destination: Destination, row: NetworkLogRow) -> bytes | None:
        """The head of a connection whose name is right; else `None`, and if it was wrong the row says why."""
        try:
            return await self._begun(sock, destination)
        except heads.Misread as error:
            self._misread(destination, error, row)
            return None

    def _misread(self, destination: Destination, error: heads.Misread, row: NetworkLogRow) -> None:
        self.policy.refused(destination, f"the connection to {destination} {error}")
        row.verdict, row.reason = "blocked", self._why(destination)
        self.journal.write(row)  # before anybody is told

    async def reach(self, destination: Destination, row: NetworkLogRow) -> socket.socket | None:
        """A connection there; `None` if there is none, and then the row says why."""
        deadline = time.monotonic() + self.limits.dial_timeout
        where = f"{destination.host}:{destination.port}"
        before = self.policy.evaluator
        try:
            async with asyncio.timeout(self.limits.dial_timeout):
                upstream = await connect_async(await self.policy.vetted(destination), deadline)
        except EgressDeniedError as error:
            row.verdict = "blocked"
            row.reason = (
                f"{error} Whoever made this sandbox can open {where} by naming its address in "
                "NetworkRules(private=[…]) of `network=`."
            )
        except HttpFetchError as error:
            row.verdict, row.reason = "failed", str(error)
        except (TimeoutError, OSError):
            row.verdict, row.reason = "failed", f"{where} did not answer in time"
        else:
            row.dst_ip = str(upstream.getpeername()[0])
            if self.policy.evaluator is before or self.policy.still(destination, row.dst_ip):
                return upstream
            reset(upstream)  # who changed the rules could not know the address
            row.verdict, row.reason = "blocked", f"the rules do not allow {where} any more"
        self.policy.failed(destination.host, destination.port, row.reason)
        return None

    async def carried(self, sock: socket.socket, upstream: socket.socket, head: bytes, row: NetworkLogRow) -> None:
        """Joins the two, after `head`."""
        if await self._sent(upstream, head):
            await self._followed(Splice(sock, upstream, self._carried), len(head), row)

    async def tunnelled(
        self, sock: socket.socket, upstream: socket.socket, destination: Destination, answer: bytes, row: NetworkLogRow
    ) -> None:
        """Says `answer`, reads whom it is for, and joins the two."""
        head: bytes | None = b""
        try:
            await asyncio.get_running_loop().sock_sendall(sock, answer)
            if destination.scheme == "https":
                head = await self._named(sock, destination, row)
        except BaseException:
            reset(upstream)
            raise
        if head is None:
            reset(upstream)
            await say(sock, _ACCESS_DENIED)
            return
        await self.carried(sock, upstream, head, row)

    async def _sent(self, upstream: socket.socket, head: bytes) -> bool:
        try:
            await asyncio.get_running_loop().sock_sendall(upstream, head)
        except BaseException as error:
            reset(upstream)
            if isinstance(error, OSError):
                return False
            raise
        return True

    async def _followed(self, splice: Splice, already: int, *rows: NetworkLogRow) -> None:
        for row in rows:
            self.journal.write(row)
        try:
            await self._spliced(splice)
        finally:
            out, back = splice.carried_each
            for row in rows:
                row.bytes_out, row.bytes_in = out + already, back

    # ── plain HTTP: one request for each connection, whose method and path the rules see ─────────────────────────────

    async def _http(self, sock: socket.socket, destination: Destination, row: NetworkLogRow) -> None:
        data = await self._named(sock, destination, row)
        if data is None:
            if row.reason:
                await say(sock, answer("403 Forbidden", row.reason))
            return
        if self.interception.opens(destination):
            await self.interception.serve(self, sock, destination, data, row)
            return
        try:
            request = parse_request(data)
            if request.upgrades and request.rest:
                raise heads.Misread("goes on before its upgrade was granted")
        except heads.Misread as error:
            self._misread(destination, error, row)
            await say(sock, answer("400 Bad Request", row.reason))
            return
        await self.requested(sock, destination, request, row)

    async def requested(
        self, sock: socket.socket, destination: Destination, request: RequestHead, row: NetworkLogRow
    ) -> None:
        """Asks for what a plain request asks for, or says why not."""
        host, port = destination.host, destination.port
        asked = self.journal.begin(kind="request", host=host, port=port, scheme="http", method=request.method)
        try:
            path, _ = url_of(request, self.policy.evaluator.rules, "http", host, port)
            asked.path = path[:512]
            full = Destination(host, port, "http", request.method, path)
            self.interception.plain(full, request)
            verdict = self.policy.permit(full)
            if not verdict.allowed:
                raise EgressDeniedError(self.policy.told(full, verdict))
            asked.match_rule = row.match_rule = verdict.rule
            self.asks(full)
            upstream = await self.reach(full, asked)
        except GloveportError as error:
            self.policy.failed(host, port, str(error))
            asked.verdict, asked.reason = "blocked", str(error)
            asked.secret, asked.violation = self.interception.fault(error)
            upstream = None
        if upstream is None:
            asked.status = 403 if asked.verdict == "blocked" else 502
            row.verdict, row.reason = asked.verdict, asked.reason
            self.journal.end(asked)
            self.journal.write(row)
            status = "403 Forbidden" if asked.status == 403 else "502 Bad Gateway"
            await say(sock, answer(status, asked.reason))
            return
        row.dst_ip = asked.dst_ip
        head = request.forwarded() + request.rest
        try:
            if await self._sent(upstream, head):
                await self._followed(self._listening(sock, upstream, request, asked), len(head), row, asked)
        finally:
            self.journal.end(asked)

    def _listening(
        self, sock: socket.socket, upstream: socket.socket, request: RequestHead, asked: NetworkLogRow
    ) -> Splice:
        splice = Splice(sock, upstream, self._carried)
        upgrades = request.upgrades

        def heard(begin: bytes) -> bool:
            status = response_status(begin)
            if status is None:
                return False
            asked.status = status
            self.journal.write(asked)  # who has the answer finds it in the log
            if upgrades:  # what was not granted would be further requests, which nobody has looked at
                splice.release() if status == 101 else splice.silence()
            return True

        splice.listen(heard)
        if upgrades:
            splice.hold()
        return splice

    def _why(self, destination: Destination) -> str:
        return self.policy.why(destination.host, destination.port) or ""
