"""The plugins that widgets may have: named as for Vite, carried out by what this package brings along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import WidgetPluginError

__all__ = ("TAILWIND_VERSION", "Plugins")

TAILWIND_VERSION: Final = "4.3.5"
"""Of Tailwind CSS, as `guest/builder/deno.json` pins it."""
_TAILWIND: Final = re.compile(r"(?:npm:)?(?:@tailwindcss/vite|tailwindcss)(?:@(?P<version>[\w.^~-]+))?")
_FOURTH: Final = re.compile(r"(?:latest|[\^~]?v?4(?:\.\d+){0,2})")


@dataclass(frozen=True, slots=True)
class Plugins:
    """Which are on."""

    tailwind: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """As they are written."""
        return ("npm:@tailwindcss/vite@latest",) if self.tailwind else ()

    @classmethod
    def parse(cls, plugins: Sequence[str]) -> Plugins:
        """Reads specifiers such as `"npm:@tailwindcss/vite@latest"`. Nothing is downloaded: the version here is the one that is used.

        Raises `WidgetPluginError` for any other plugin, and for another major version; `TypeError` for what is no sequence of strings.
        """
        if isinstance(plugins, str) or not all(isinstance(plugin, str) for plugin in plugins):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"plugins must be a sequence of strings, not {plugins!r}")
        for plugin in plugins:
            found = _TAILWIND.fullmatch(plugin)
            if found is None:
                raise WidgetPluginError(
                    f'the plugin {plugin!r} is not supported. Supported: "npm:@tailwindcss/vite@latest" (Tailwind CSS {TAILWIND_VERSION})'
                )
            version = found["version"]
            if version is not None and not _FOURTH.fullmatch(version):
                raise WidgetPluginError(
                    f"the plugin {plugin!r} asks for version {version}: this release brings Tailwind CSS {TAILWIND_VERSION}; "
                    'write "npm:@tailwindcss/vite@latest"'
                )
        return cls(tailwind=bool(plugins))
