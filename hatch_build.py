"""Build hook: makes `src/gloveport/_native/` before a wheel or an editable install. `python hatch_build.py` does it alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def build_native() -> None:
    """Everything that is not Python source: the wasm guest, the programs of Deno workers, the compiler, what makes widgets, machines."""
    from buildsteps import box, bundles, guest, widgets

    guest.build()
    bundles.toolbox()
    bundles.v8(guest.bootstrap_files())
    bundles.module()
    bundles.decorators()
    widgets.build()
    box.build()


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run directly, without hatchling
    if __name__ != "__main__":
        raise
else:

    class NativeHook(BuildHookInterface[Any]):
        """Called by hatchling; a source distribution needs nothing built."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if self.target_name == "wheel":
                build_native()


if __name__ == "__main__":
    build_native()
