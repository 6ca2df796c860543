"""The image `debian`: unpacked on this host, and configured in a machine of its own, where the packages' scripts do no harm."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final

from ...errors import SandboxImageError
from ...machines.box import Box
from ...machines.estate import Estate, image_options, new_id
from ...machines.exec import ExecRequest, Follower
from ...machines.images.debian import CONFIGURE, DEFAULT_PACKAGES, unpacked_layer
from ...machines.images.fitting import fitted
from ...machines.images.manifests import Image
from ...machines.registry import Record
from ...machines.spec import Image as Root
from ...machines.spec import Limits

__all__ = ("make_debian",)

_CONFIGURE_SECONDS: Final = 1800
_LIMITS: Final = Limits(memory_mb=2048, pids=1024)


def make_debian(
    estate: Estate,
    name: str = "debian",
    packages: Sequence[str] = DEFAULT_PACKAGES,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Image:
    """Make it, in minutes. For an ordinary user of the host all of its files are that user's. Raises `SandboxImageError` with what went
    wrong; nothing is kept then."""
    try:
        unpacked = unpacked_layer(estate.layers, packages, say=say)
    except (OSError, RuntimeError, ValueError) as error:
        raise SandboxImageError(f"a Debian image cannot be made here: {error}") from error
    image = fitted(estate.layers, Image(name=name, layers=[unpacked], source="Debian packages"))
    say("configuring")
    image.layers = [_configured(estate, image), *image.layers]
    return estate.images.put(image)


def _configured(estate: Estate, image: Image) -> str:
    """A layer with what the scripts of the packages have made."""
    root = Root(name=image.name, layers=tuple(map(estate.layers.path, image.layers)))
    record = Record(
        id=new_id(),
        name="debian",
        owner="gloveport",
        host=estate.host,
        driver="namespace",
        created=time.time(),
        metadata={},
        options={
            "image": image_options(estate.root, root),
            "limits": {name: getattr(_LIMITS, name) for name in ("memory_mb", "pids", "cpus", "disk_mb", "open_files")},
            "env": {},
            "user": "root",
            "hostname": "debian",
            "attached": False,
        },
        timeout=None,
        idle=None,
        auto_delete=60.0,
        auto_resume=True,
    )
    box = Box(estate, estate.create(record))
    try:
        request = ExecRequest(shell=CONFIGURE, user="0", cwd="/", timeout_ms=_CONFIGURE_SECONDS * 1000)
        result = box.channel.run(lambda: Follower(limit=65536).run(request))
        if not result.ok:
            raise SandboxImageError(f"the packages could not be configured: {(result.stderr or result.stdout)[-2000:]}")
        box.channel.drop()
        with estate.layers.staging() as staging:
            estate.take_files(box.id, staging.tree)
            return estate.layers.adopt(staging.tree, why="configured packages")
    finally:
        with contextlib.suppress(Exception):
            box.channel.drop()
        estate.kill(box.id)
