"""What every driver's probe is made of: a machine that nobody knows, and keeping what was found until the host is started again."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

from ..errors import GloveportError
from .driver import Capabilities, Driver
from .home import boot_id
from .images.trees import remove_tree
from .locks import transition

__all__ = ("MAY_GIVE_AWAY", "found_or_kept", "nameless")

MAY_GIVE_AWAY: Final = "touch /tmp/probe && chown 5:5 /tmp/probe && test $(stat -c %u /tmp/probe) = 5"
"""A command of the machine's root: whether files can have other owners."""


def found_or_kept(
    path: Path, key: Callable[[], list[Any]], measure: Callable[[], Capabilities], *, driver: str
) -> Capabilities:
    """What was found before in this boot by this user with this `key`, else what `measure` finds now.

    An error of `key` or `measure` says why there are no machines. That is not kept: what is missing now may be there soon.
    """
    try:
        mark = [boot_id(), os.geteuid(), *key()]
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(path.read_text("utf-8"))
            if kept["key"] == mark:
                return Capabilities.of(kept["capabilities"])
        measured = measure()
    except (GloveportError, OSError) as error:
        return Capabilities(driver=driver, isolation="none", problem=str(error))
    if measured.isolation != "none":
        fresh = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        fresh.write_text(json.dumps({"key": mark, "capabilities": measured.as_dict()}), "utf-8")
        fresh.replace(path)
    return measured


@contextlib.contextmanager
def nameless(driver: Driver, root: Path) -> Generator[Path]:
    """The folder of a machine that nobody knows, and of which nothing is left."""
    id = f"probe-{secrets.token_hex(8)}"  # noqa: A001
    folder = root / "boxes" / id
    with transition(root, id):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            driver.kill(folder, "probe")
            driver.release(folder)
            remove_tree(folder)
