"""What to do about a jail that is not complete: refuse, warn, or nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

from gloveport.engines.jail.layers import Missing, describe
from gloveport.errors import SandboxUnavailableError, SandboxWarning

__all__ = ("Sandbox", "judge")

Sandbox = Literal["require", "auto", "off"]


def judge(sandbox: Sandbox, who: str, greeting: Mapping[str, Any]) -> None:
    """Refuses, warns or says nothing about what a jail reports: layers that are missing, and what its self-test could do.

    Raises `SandboxUnavailableError` under `"require"`; warns once with `SandboxWarning` under `"auto"`.
    """
    if sandbox == "off":
        return
    text = describe([Missing(*entry) for entry in greeting["missing"]])
    possible: list[str] = greeting["possible"]
    if possible:
        text += f"\n- the self-test inside of the jail could do what it must not: {', '.join(possible)}"
    if not text:
        return
    if sandbox == "require":
        raise SandboxUnavailableError(
            f"the jail around {who} is incomplete:\n{text.strip()}\n"
            'Run `gloveport doctor` for the whole list. sandbox="auto" goes on without what is missing.'
        )
    warnings.warn(f"{who} runs without a part of its jail:\n{text.strip()}", SandboxWarning, stacklevel=4)
