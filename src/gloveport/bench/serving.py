"""The other end of `peers.Peer`: requests on stdin, samples on stdout. Standard library only: it runs in a peer's environment."""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ("answer",)


def answer(probes: Any) -> None:
    """Answer `{"probe": name, "args": {…}}` with `{"value": …}` or `{"error": …}`, one JSON object a line, until stdin ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"value": getattr(probes, request["probe"])(**request["args"])}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)
