"""What the model is told of the module tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from .capability import TypeScriptSandbox

__all__ = ("DESCRIPTION", "RENDER_WIDGET", "RUN_TYPESCRIPT", "instructions_for", "tools_text")

DESCRIPTION: Final = "Run JavaScript, TypeScript and TSX modules in a sandbox, with the tool `run_typescript`."

RUN_TYPESCRIPT: Final = """\
Run a complete JavaScript, TypeScript or TSX module in a Deno sandbox, and get what it returns.
- Export a function, as `export default` or named `run`: it is called without arguments, may be async, and returns JSON data. \
A script without exports is fine, too: the value of its last expression is the result.
- JSX works without an import; `react` and `react-dom/server` can be imported.
- Console output is given back beside the result when there is some."""

RENDER_WIDGET: Final = """\
Render a React widget. `source` is a complete TSX module that default-exports a component without required props; do not render it \
yourself. It is mounted once to see that it works. The user sees it; you get its id, its size and warnings."""


def instructions_for(capability: TypeScriptSandbox[Any]) -> str:
    """The instructions that are true of a capability's options."""
    lines = ["Use `run_typescript` for computing, parsing and transforming data."]
    if capability.session is not None:
        lines.append(
            "Its sandbox is shared with other work of the application: what earlier code left on `globalThis` may be there."
        )
    else:
        lines.append(f"{_imports(capability)} {_network(capability)}")
        lines.append(
            "There are no host files, no environment variables and no other programs. What a module leaves on `globalThis` stays for the "
            "next call of this run."
        )
    size = capability.max_output_bytes
    limit = f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} bytes"
    lines.append(f"A call may take {capability.timeout:g} s, and its result may have {limit} of JSON.")
    if capability.inputs is not None:
        lines.append(_inputs(capability.inputs))
    if capability.tools is not None:
        lines.append(
            "Some tools can be called from modules as `await tools.<name>({...})`; see the tool's description."
        )
    if capability.renders:
        packages = " Widgets may import packages made for browsers, too." if capability.allow_package_imports else ""
        lines.append(f"Use `render_widget` to show something interactive to the user.{packages}")
    return " ".join(lines)


def _inputs(inputs: Any) -> str:
    given = list(cast("Mapping[str, Any]", inputs)) if isinstance(inputs, Mapping) else []
    names = f": {', '.join(f'`{name}`' for name in given)}" if given else ""
    return (
        f"Data of the application is given to each module{names}; the exported function gets it as an object, `run({{name, ...}})`, "
        "and a script has it as variables."
    )


def _imports(capability: TypeScriptSandbox[Any]) -> str:
    packages = capability.allow_package_imports
    if packages is False:
        return "Packages cannot be imported (only React, and Node's own modules)."
    some = "" if packages is True else " where the application allows them"
    kinds = "npm (`npm:name@version` or the bare name), JSR (`jsr:@scope/name`) and https modules"
    return f"{kinds} can be imported{some}, written as literals."


def _network(capability: TypeScriptSandbox[Any]) -> str:
    network = capability.allow_network
    if network is False:
        return "There is no network: `fetch` is refused."
    return f"`fetch` reaches {'public hosts' if network is True else 'the hosts that the application allows'} only."


def tools_text(listing: str) -> str:
    """What the description says in addition where modules may call tools."""
    return f"- Modules can call these, with one object argument; calls made together with `Promise.all` run at the same time.\n\n{listing}"
