"""`gloveport render`."""

from __future__ import annotations

import io
import json

import pytest

from gloveport.cli import main

SOURCE = "export default function Sales() { return <p className='p-4'>hi</p> }"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "w.tsx"
    path.write_text(SOURCE)
    return path


def test_it_writes_the_page(file, tmp_path, capsys):
    out = tmp_path / "out.html"
    assert main(["render", str(file), "-o", str(out), "--tailwind", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == out.stat().st_size
    assert (told["title"], told["warnings"], told["path"]) == ("Sales", [], str(out))
    assert ".p-4 {" in out.read_text()


def test_standard_input_and_output_a_title_and_a_style_sheet(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("export default () => { console.warn('look out'); return <p>hi</p> }"))
    (tmp_path / "a.css").write_text("p { color: teal }")
    assert main(["render", "-", "-o", "-", "--title", "A title", "--css", str(tmp_path / "a.css")]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("<!doctype html>")
    assert "<title>A title</title>" in said.out
    assert "p { color: teal }" in said.out
    assert "warning: look out" in said.err


@pytest.mark.parametrize(
    ("source", "arguments", "code", "text"),
    [
        ("export default () => {\n  throw new Error('boom') }", [], 1, "Error: boom (line 2, column 9)"),
        ("import x from 'lodash';\nexport default () => <p>{x}</p>", [], 1, "allow_package_imports"),
        ("export default () => { for (;;); }", ["--timeout", "0.4"], 3, "endless loop"),
        ("export default () => { const a = []; for (;;) a.push({ a: [1] }) }", [], 3, "memory"),
        (SOURCE, ["--timeout", "0"], 2, "timeout"),
        (SOURCE, ["-o", "/nonexistent/folder/x.html"], 5, "cannot write"),
    ],
)
def test_exit_codes(tmp_path, capsys, source, arguments, code, text):
    (tmp_path / "w.tsx").write_text(source)
    assert main(["render", str(tmp_path / "w.tsx"), "-o", str(tmp_path / "o.html"), *arguments]) == code
    assert text in capsys.readouterr().err
    assert (tmp_path / "o.html").exists() is False


def test_a_file_that_is_not_there(capsys, tmp_path):
    assert main(["render", str(tmp_path / "none.tsx"), "-o", "-"]) == 2
    assert "cannot read" in capsys.readouterr().err
