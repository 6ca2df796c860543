"""The gateway of boxes, as it is, but for one name that leads to this machine: what `bench network` starts."""

from __future__ import annotations

from ..egress.gateway import daemon

__all__ = ("HOST", "main")

HOST = "server.test"


def _resolve(host: str, port: int) -> list[str]:
    del port
    if host != HOST:
        raise OSError("no such name")
    return ["127.0.0.1"]


def main(arguments: list[str]) -> None:
    """As `gloveport.egress.gateway.daemon`."""
    daemon.main(arguments, _resolve)
