"""Every example of the documents runs."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from pathlib import Path

import pytest

from tests.durable import need_dbos

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def _marks(page):
    return [pytest.mark.registry] if page.name == "typecheck.md" else []


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """A directory of state of their own, for pages that make machines. Nothing of them is left."""
    from gloveport import Sandbox
    from gloveport.egress.gateway.boxes.commands import Command
    from gloveport.egress.gateway.launching import DaemonClient
    from gloveport.machines.estate import estate

    root = str(tmp_path / "state")
    monkeypatch.setenv("GLOVEPORT_STATE", root)
    used = []

    def begin():
        if Sandbox.capabilities().isolation == "none":
            pytest.skip(f"no machines here: {Sandbox.capabilities().problem}")
        used.append(root)

    yield begin
    for _ in used:
        for record in estate().registry.find():
            estate().kill(record.id)
        DaemonClient(root).ask(Command("end"))


def _has_runsc(monkeypatch):
    from gloveport import Sandbox

    from ..gvisor.conftest import find

    monkeypatch.setenv("GLOVEPORT_RUNSC", str(find()))
    if Sandbox.capabilities("gvisor").isolation == "none":
        pytest.skip(f"no machines of gVisor here: {Sandbox.capabilities('gvisor').problem}")


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name, marks=_marks(page)) for page in PAGES])
def test_examples(page, machines, monkeypatch):
    """The blocks of a page run in order in one namespace; `# >` lines (or `#>`) are what `print` gave."""
    if page.name.startswith("machines") or page.name == "README.md":
        machines()
    if page.name in ("machines-pydantic-ai.md", "pydantic-ai.md", "run-typescript.md"):
        pytest.importorskip("pydantic_ai")
    if page.name == "machines-gvisor.md":
        _has_runsc(monkeypatch)
    if page.name == "machines-network.md":
        pytest.importorskip("cryptography")
    if page.name == "durable.md":
        need_dbos()
    if page.name == "catalog.md":
        pytest.importorskip("mcp")
    if page.name == "typecheck.md":
        from gloveport.engines.checker.install import install

        install()
    names = {"__name__": "example"}
    loop = asyncio.new_event_loop()  # for `run_sync`, which otherwise leaves one open
    asyncio.set_event_loop(loop)
    try:
        _run_blocks(page, names)
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def _run_blocks(page, names):
    for block in BLOCK.findall(page.read_text("utf-8")):
        expected = re.findall(r"^\s*# ?> ?(.*)$", block, re.MULTILINE)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block, str(page), "exec", dont_inherit=True), names)
        if expected:
            assert out.getvalue().splitlines() == expected


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_ci_runs_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^```sh\n(.*?)\n```", readme, re.DOTALL | re.MULTILINE)
    test = next(command for command in commands if "pytest" in command)
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert test.replace("python3 -m venv", '"$PYTHON" -m venv') in ci


def test_every_verb_and_option_of_sessions_is_documented():
    from gloveport.cli import _VERBS
    from gloveport.host.options import SessionOptions

    cli = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for verb in _VERBS:
        assert f"gloveport {verb}" in cli
    assert SessionOptions.__doc__


def test_the_bars_of_the_bench_are_the_promises_of_the_specification():
    from gloveport.bench.sessions import BARS

    text = (ROOT / "SPECIFICATION.md").read_text("utf-8")
    for bars in BARS.values():
        for bar in bars.values():
            shown = f"1/{round(1 / bar)}" if bar < 0.55 else f"{bar:g}"
            assert shown in text, shown


def test_the_bars_of_the_catalog_bench_are_the_promises_of_the_specification():
    from gloveport.bench.catalog import BARS

    section = (
        (ROOT / "SPECIFICATION.md").read_text("utf-8").partition("## A catalog of 3,000 tools")[2].partition("\n## ")[0]
    )
    rows = dict(re.findall(r"^\| ([^|]+?) ÷ [^|]*? \| ([\d.]+) \|$", section, re.MULTILINE))
    assert {name: float(bar) for name, bar in rows.items()} == dict(BARS)


def test_the_bars_of_the_arguments_bench_are_the_promises_of_the_specification():
    from gloveport.bench.arguments import BARS

    section = (ROOT / "SPECIFICATION.md").read_text("utf-8").partition("## Arguments")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([^|]+?) ÷ [^|]*? \| ([\d.]+) \|$", section, re.MULTILINE))
    assert {name: float(bar) for name, bar in rows.items()} == dict(BARS)


def test_the_bars_of_the_typecheck_bench_are_the_promises_of_the_specification():
    from gloveport.bench.typecheck import BARS

    section = (ROOT / "SPECIFICATION.md").read_text("utf-8").partition("## Type checking")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (check[^|]*?) \| 1/(\d+) \|$", section, re.MULTILINE))
    assert {name: 1 / int(bar) for name, bar in rows.items()} == dict(BARS)


def test_the_bars_of_the_widgets_bench_are_the_promises_of_the_specification():
    from gloveport.bench.widgets import BARS

    section = (ROOT / "SPECIFICATION.md").read_text("utf-8").partition("## Widgets")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|:,]+)[^|]* \| ([\d.]+)( ms| s|) \|", section, re.MULTILINE)
    assert {name.strip(): float(bar) / (1000 if unit == " ms" else 1) for name, bar, unit in rows} == dict(BARS)
