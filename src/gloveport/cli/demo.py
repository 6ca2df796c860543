"""`gloveport demo`: what a session can do that others cannot, in a few steps, without a key or a network."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ..host.sync import AgentSandbox
from ..types import Done, Failed, Step, ToolCall
from . import EXIT_HOST, EXIT_OK

__all__ = ("MODEL_CODE", "arguments", "run")

MODEL_CODE = """
interface Order { id: number; customer: string; total: number; late: boolean }

const [orders, moods, tone]: [Order[], Record<string, number>, string] = await Promise.all([
  list_orders("open"),
  customer_moods(["Ada", "Grace", "Linus"]),
  house_style(),
]);
const unhappy = orders.filter(o => o.late && moods[o.customer] < 0);
console.log(`${unhappy.length} of ${orders.length} customers are late and unhappy`);

try {
  const receipt = await send_email(unhappy[0].customer, `${tone} your order ${unhappy[0].id} is on its way.`);
  return { told: unhappy.map(o => o.customer), receipt };
} catch (e) {
  return { told: [], note: `not sent: ${(e as Error).name}` };
}
"""
"""What the scripted model "writes"."""


def list_orders(status: str) -> list[dict[str, Any]]:
    """Orders with that status."""
    time.sleep(0.05)
    return [
        {"id": 1, "customer": "Ada", "total": 90, "late": False},
        {"id": 2, "customer": "Grace", "total": 120, "late": True},
        {"id": 3, "customer": "Linus", "total": 15, "late": True},
    ]


def customer_moods(names: list[str]) -> dict[str, float]:
    """A mood per customer, from -1.0 to +1.0."""
    time.sleep(0.05)
    return {name: -0.5 if name == "Grace" else 0.5 for name in names}


def house_style() -> str:
    """How we address people."""
    time.sleep(0.05)
    return "Good news:"


def send_email(to: str, text: str) -> str:
    """Send an e-mail. Needs a person's approval."""
    return f"sent to {to}"


TOOLS = {
    "list_orders": list_orders,
    "customer_moods": customer_moods,
    "house_style": house_style,
    "send_email": send_email,
}


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verb.add_argument("--sandbox", choices=["require", "auto", "off"], default="require")
    verb.add_argument("--restore", type=Path, help=argparse.SUPPRESS)


class _Clock:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def step(self, text: str) -> None:
        now = time.perf_counter()
        print(f"{(now - self._last) * 1000:8.1f} ms  {text}", flush=True)
        self._last = time.perf_counter()


def run(options: argparse.Namespace) -> int:
    """Play both halves: up to the pause here, the rest in a fresh process."""
    if options.restore is not None:
        return _second_half(options)
    clock = _Clock()
    print("The model writes TypeScript:\n" + MODEL_CODE.replace("\n", "\n  ").rstrip() + "\n")
    with AgentSandbox(TOOLS, max_tool_calls=10, sandbox=options.sandbox) as session:
        clock.step("a session starts in a jailed worker process")
        step = _to_approval(session, clock)
        if not isinstance(step, ToolCall):
            return EXIT_HOST
        clock.step(f"paused: {step.name}{step.args!r} wants approval")
        key = secrets.token_bytes(32)
        blob = session.dump(key, associated_data=b"demo")
        clock.step(f"saved: {len(blob):,} bytes, authenticated")
    clock.step("the session and its worker are gone")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session")
        path.touch(mode=0o600)
        path.write_bytes(key + blob)
        command = [sys.executable, "-m", "gloveport", "demo", "--sandbox", options.sandbox, "--restore", str(path)]
        return subprocess.run(command, check=False, env=dict(os.environ)).returncode


def _to_approval(session: AgentSandbox, clock: _Clock) -> Step:
    """Everything but the e-mail is answered by the real tools, side by side; the e-mail is handed out."""
    step = session.start(MODEL_CODE, ask=["send_email"])
    clock.step("three tools were called together (50 ms each) and answered")
    return step


def _second_half(options: argparse.Namespace) -> int:
    data = options.restore.read_bytes()
    clock = _Clock()
    with AgentSandbox(TOOLS, sandbox=options.sandbox):
        clock.step(f"a fresh process (pid {os.getpid()}) has its first worker ready")
    session = AgentSandbox.load(data[32:], data[:32], TOOLS, associated_data=b"demo", sandbox=options.sandbox)
    clock.step("restored: no tool was called again")
    with session, session.fork() as branch:
        clock.step("forked: two sessions wait at the same call")
        step = session.pending
        if step is None or branch.pending is None:
            return EXIT_HOST
        approved = session.resume(step, session.call(step))
        clock.step(f"approved branch: {_text(approved)}")
        denied = branch.resume(branch.pending, error=PermissionError("a person said no"))
        clock.step(f"denied branch:   {_text(denied)}")
        ok = isinstance(approved, Done) and isinstance(denied, Done)
        follow_up = session.run("return unhappy.length")
        clock.step(f"a later run in the approved branch still sees its variables: unhappy.length = {follow_up}")
    return EXIT_OK if ok else EXIT_HOST


def _text(step: Step) -> str:
    return (
        str(step.error)
        if isinstance(step, Failed)
        else json.dumps(step.result)
        if isinstance(step, Done)
        else repr(step)
    )
