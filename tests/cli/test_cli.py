"""The command line: output, exit codes, and what each verb does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gloveport import AgentSandbox, __version__
from gloveport.cli import main
from gloveport.stores import Record, SQLiteStore

ENGINES = {"wasm": ("--isolation", "inline"), "v8": ("--engine", "v8")}


@pytest.fixture(params=ENGINES)
def engine(request):
    """What runs the code, as options."""
    return ENGINES[request.param]


@pytest.fixture
def cli(capsys):
    def run(*argv):
        try:
            code = main([str(part) for part in argv])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_version_and_help(cli):
    assert cli("--version") == (0, f"gloveport {__version__}\n", "")
    code, out, _ = cli("--help")
    assert code == 0
    for verb in ("run", "sessions", "demo", "install", "doctor", "bench", "prune"):
        assert verb in out
        assert cli(verb, "--help")[0] == 0


def test_run_prints_the_result_and_the_output_apart(cli, engine):
    code, out, err = cli("run", "-c", "console.log('hi'); const n: number = 41; return {n: n + 1}", *engine)
    assert (code, json.loads(out), err) == (0, {"n": 42}, "hi\n")


def test_run_reads_files_and_standard_input(cli, engine, tmp_path, monkeypatch):
    file = tmp_path / "code.ts"
    file.write_text("return 'é'")
    assert cli("run", file, *engine)[:2] == (0, '"é"\n')
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("return 7"))
    assert cli("run", "-", *engine)[:2] == (0, "7\n")


def test_run_json_is_the_whole_result(cli, engine):
    code, out, err = cli("run", "--json", "-c", "console.log('x'); null.y", *engine)
    data = json.loads(out)
    assert (code, data["status"], data["stdout"], data["error_type"], data["line"]) == (
        1,
        "Failed",
        "x\n",
        "TypeError",
        1,
    )
    assert err == ""


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["-c", "throw 1"], 1),
        (["-c", "return 1 +"], 1),
        (["-c", "for (;;);", "--timeout", "0.2"], 3),
        (["-c", "return 'x'.repeat(2000)", "--max-result", "1K"], 3),
        (["-c", "const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))", "--max-memory", "32M"], 3),
        (["-c", "export const x = 1"], 1),
        (["-c", "import 'npm:lodash'; export default () => 1"], 1),
        (["-c", "export default () => { for (;;); }", "--timeout", "0.2"], 3),
        (["-c", "export default () => 'x'.repeat(2000)", "--max-result", "1K"], 3),
        (["-c", "export default () => 1", "--input", "a"], 2),
        (["-c", "export default () => 1", "--input", "a={"], 2),
        (["-c", "export default () => 1", "--allow-net", "10.0.0.0/8"], 2),
        (["no-such-file.js"], 2),
        (["-c", "1", "--timeout", "0"], 2),
        (["-c", "1", "--max-memory", "lots"], 2),
        (["-c", "1", "--engine", "v9"], 2),
        ([], 2),
    ],
)
def test_exit_codes(cli, engine, argv, code):
    before = () if "--engine" in argv else engine
    assert cli("run", *before, *argv)[0] == code


def test_modules_run(cli, tmp_path):
    file = tmp_path / "sum.ts"
    file.write_text("export default ({rows}: {rows: number[]}) => { console.log('adding'); return rows.length }")
    assert cli("run", str(file), "--input", "rows=[1, 2, 3]") == (0, "3\n", "adding\n")
    data = json.loads(cli("run", "--json", str(file), "--input", "rows=[1]")[1])
    assert (data["ok"], data["value"], data["stdout"], data["exit_reason"]) == (True, 1, "adding\n", "returned")


def test_a_tsx_file_is_a_module_whatever_is_in_it(cli, tmp_path):
    file = tmp_path / "looks.tsx"
    file.write_text("const list = <ul><li>1</li></ul>;\nlist.type")
    assert cli("run", str(file))[:2] == (0, '"ul"\n')


def test_the_network_of_a_module_is_off_unless_it_is_allowed(cli):
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        code = f"export default async () => (await fetch('http://{host}/')).text()"
        assert cli("run", "-c", code)[0] == 1
        assert cli("run", "-c", code, "--allow-net")[0] == 1, "loopback is no public host"
        assert cli("run", "-c", code, "--allow-net", host)[:2] == (0, '"hi"\n')
        server.shutdown()


def test_a_missing_jail_is_its_own_exit_code(cli, monkeypatch):
    from gloveport.engines.wasm import pool
    from gloveport.errors import SandboxUnavailableError

    def refuse(self, *args):
        raise SandboxUnavailableError("no user namespaces here")

    monkeypatch.setattr(pool.WorkerPool, "take", refuse)
    code, _, err = cli("run", "-c", "1")
    assert code == 4
    assert "no user namespaces here" in err


def test_v8_has_no_other_isolation(cli):
    code, _, err = cli("run", "-c", "1", "--engine", "v8", "--isolation", "inline")
    assert (code, "isolation='process'" in err) == (2, True)


def test_run_is_repeatable_with_seed_and_clock(cli, engine):
    argv = [
        "run",
        "-c",
        "return [Math.random(), Date.now()]",
        "--seed",
        "5",
        "--clock",
        "1000",
        *engine,
    ]
    assert cli(*argv) == cli(*argv)
    assert json.loads(cli(*argv)[1])[1] == 1_000_000


def test_doctor(cli):
    code, out, _ = cli("doctor", "--json")
    report = json.loads(out)
    assert (code == 0) == report["ok"]
    names = {check["name"] for check in report["checks"]}
    assert {"guest", "compiler", "session", "jail: seccomp", "jail: landlock", "jail: self-test"} <= names
    assert all(check["fix"] for check in report["checks"] if not check["ok"])
    assert "seccomp" in cli("doctor")[1]


def test_sessions_lists_what_waits_and_shows_it_with_the_key(cli, tmp_path):
    key = b"k" * 32
    path, key_file = tmp_path / "store.db", tmp_path / "key"
    key_file.write_bytes(key)
    with AgentSandbox({"mail": lambda to: 1}, isolation="inline", max_tool_calls=3) as session:
        session.start("await mail('ada@example.org')")
        blob = session.dump(key, associated_data=b"t1")
    store = SQLiteStore(path)
    store.put(Record(key="s1", blob=blob, spent=1, pending="mail", label="order 7"), expect=None)
    store.close()
    code, out, _ = cli("sessions", "list", "--store", path, "--json")
    (row,) = json.loads(out)
    assert (code, row["key"], row["pending"], row["calls"], row["label"]) == (0, "s1", "mail", 1, "order 7")
    assert "waits at mail" in cli("sessions", "list", "--store", path)[1]
    code, out, _ = cli(
        "sessions", "show", "s1", "--store", path, "--key-file", key_file, "--associated-data", "t1", "--json"
    )
    shown = json.loads(out)
    assert (shown["waiting"], shown["calls_remaining"]) == ([{"tool": "mail", "arguments": ["ada@example.org"]}], 2)
    assert cli("sessions", "show", "s1", "--store", path, "--key-file", key_file)[0] == 5  # other associated data
    assert cli("sessions", "show", "nobody", "--store", path)[0] == 5
    assert cli("sessions", "list", "--store", tmp_path / "none.db")[0] == 2


def test_prune_removes_what_is_not_used(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with AgentSandbox({}, isolation="inline") as session:
        session.run("return 1")
    folder = tmp_path / "gloveport"
    old = folder / "guest-of-another-build"
    folder.mkdir(mode=0o700, exist_ok=True)
    old.write_bytes(b"x" * 1000)
    import os

    os.utime(old, (0, 0))
    code, out, _ = cli("prune", "--dry-run")
    assert (code, str(old) in out, old.exists()) == (0, True, True)
    assert "freed 1000 bytes in 1 files" in cli("prune")[1]
    assert not old.exists()


def test_the_demo_plays_to_its_end():
    done = subprocess.run([sys.executable, "-m", "gloveport", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in (
        "paused: send_email",
        "restored: no tool was called again",
        'approved branch: {"told": ["Grace"]',
        "not sent: PermissionError",
    ):
        assert line in done.stdout
    assert done.stdout.count(" ms  ") >= 10


def test_the_bench_has_rows_bars_and_an_exit_code(capsys):
    from gloveport.bench.report import Row, median_of, show

    good = Row(name="a", ours=1.0, unit="s", peer="p", peer_value=4.0, ratio=0.25, bar=0.5, ok=True)
    bad = Row(name="b", ours=3.0, unit="s", peer="p", peer_value=4.0, ratio=0.75, bar=0.5, ok=False)
    assert show([good], as_json=True, check=True) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0].keys() == {
        "name",
        "ours",
        "unit",
        "peer",
        "peer_value",
        "ratio",
        "bar",
        "ok",
    }
    assert show([good, bad], as_json=False, check=True) == 1
    assert "b " in capsys.readouterr().err.splitlines()[-1]
    assert show([good, bad], as_json=False, check=False) == 0
    taken = []
    assert median_of(3, lambda: taken.append("x") or 1.0, lambda: taken.append("y") or 2.0) == [1.0, 2.0]
    assert taken == ["x", "y"] * 3


def test_the_bench_measures(monkeypatch):
    import gloveport
    from gloveport.bench.probes import Probes

    probes = Probes(gloveport, {"isolation": "inline"})
    try:
        assert all(
            value > 0
            for value in (
                probes.create(),
                probes.warm_run(2),
                probes.tool_call(5),
                probes.tools_at_once(5),
                probes.overlap(),
                probes.value_1mb(),
                probes.warm_run_async(2),
                probes.tool_call_async(5),
                probes.tool_call_async_thread(5),
                probes.dump("3"),
                probes.load("3+"),
                probes.blob_bytes("3"),
                probes.crowd(2),
            )
        )
    finally:
        probes.close()


def test_a_bar_that_cannot_be_compared_is_not_kept(monkeypatch, capsys):
    from gloveport.bench import sessions
    from gloveport.bench.peers import PeerFailed

    class Peer:
        def __init__(self, name, fails):
            self.name, self.fails = name, fails

        def measure(self, probe, **arguments):
            if self.fails:
                raise PeerFailed(f"{self.name}: it cannot", self.name)
            return 2.0

    class Probes:
        def asked(self):
            return 1.0

    question = sessions.Question("row", "asked", samples=3)
    for fails, kept in (
        ((), [True, None]),
        (("monty",), [True]),
        (("pydeno",), [None, False]),
        (("pydeno", "monty"), [None, False]),
    ):
        peers = {name: Peer(name, name in fails) for name in ("pydeno", "monty")}
        rows = sessions._ask(question, Probes(), peers, 0.6)
        assert [row.ok for row in rows] == kept
        assert ("pydeno" in fails) == ("pydeno: it cannot" in capsys.readouterr().err)
    assert [row.ok for row in sessions._ask(question, Probes(), {"pydeno": Peer("pydeno", False)}, 0.4)] == [False]


ODD = "\ud800 \x9b31m \x1b[31m \x7f \u202e \u200b \U000e0041"
"""Half a character, what terminals obey, what turns a line around, and what nobody sees."""


def test_what_is_printed_drives_no_terminal_and_is_still_json(cli, engine, tmp_path):
    code = f"return {json.dumps([ODD, 'é 😀'])}"
    for options in ([], ["--json"]):
        done, out, _ = cli("run", *options, "-c", code, *engine)
        assert done == 0
        assert not set(out) & {c for c in ODD if not c.isascii() or not c.isprintable()}
        assert "é 😀" in out
        data = json.loads(out)
        assert (data["result"] if options else data) == [ODD, "é 😀"]
    module = tmp_path / "odd.ts"
    module.write_text(f"export default () => {json.dumps(ODD)}")
    done, out, _ = cli("run", str(module))
    assert (done, json.loads(out)) == (0, ODD.replace("\ud800", "\ufffd"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_knows_few_characters(encoding):
    code = "console.log('é → 😀'); return 'é → 😀'"
    done = subprocess.run(
        [sys.executable, "-m", "gloveport", "run", "--isolation", "inline", "-c", code],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode(encoding)) == "é → 😀"
