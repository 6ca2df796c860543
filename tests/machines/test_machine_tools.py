"""`MachineTools` on a `MachineSandbox`: what the model is given, and what it is told when something fails."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

pytest.importorskip("pydantic_ai.workspaces")

from pydantic_ai import Agent, BinaryContent, ConversationTypeAdapter, ModelResponse, models
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.test import TestModel
from pydantic_ai.workspaces import ReadOnlyWorkspace, Workspace, WorkspaceUnavailableError

from gloveport import Sandbox
from gloveport.integrations.pydantic_ai.machines.search import Pattern
from gloveport.pydantic_ai import MachineSandbox, MachineTools
from gloveport.testing import scripted_model

models.ALLOW_MODEL_REQUESTS = False
pytestmark = pytest.mark.usefixtures("loops")


def machine_of(ref):
    return ref.id.partition(".")[0]


@pytest.fixture(scope="module")
def used(state):
    """The references that runs of this module have made."""
    refs = []
    yield refs
    for ref in refs:
        Sandbox.kill_by_id(machine_of(ref))


@pytest.fixture(scope="module")
def workspace(used):
    """One machine for the whole module."""
    agent = Agent(scripted_model(("bash", {"command": "true"})), capabilities=[MachineSandbox(), MachineTools()])
    result = asyncio.run(agent.run("go"))
    used.append(result.workspace.ref)
    return result.workspace.ref


@pytest.fixture
def call(workspace):
    """Runs calls of tools in that machine; gives the texts that the model saw, and how each ended."""

    def run(*calls, tools=None):
        agent = Agent(scripted_model(*calls), capabilities=[MachineSandbox(), tools or MachineTools()])
        return seen(agent.run_sync("go", workspace=workspace))

    return run


def seen(result):
    parts = [part for message in result.new_messages() for part in message.parts if part.part_kind == "tool-return"]
    return [(part.outcome, part.model_response_str(wrap_if_error=False)) for part in parts]


def test_a_file_is_written_run_edited_searched_and_read(call):
    results = call(
        ("write_file", {"path": "src/primes.py", "content": "def primes(n):\n    return [2, 3]\nprint(primes(2))\n"}),
        ("bash", {"command": "python3 src/primes.py"}),
        ("edit_file", {"path": "src/primes.py", "old_text": "[2, 3]", "new_text": "[2, 3, 5]"}),
        ("grep", {"pattern": "return .*5", "context": 1}),
        ("list_files", {"glob": "*.py"}),
        ("read_file", {"path": "/workspace/src/primes.py", "offset": 1, "limit": 1}),
    )
    assert [outcome for outcome, _ in results] == ["success"] * 6
    texts = [text for _, text in results]
    assert texts[0].startswith("Wrote 50 bytes to src/primes.py (sha256:")
    assert json.loads(texts[1]) == {"stdout": "[2, 3]\n", "stderr": "", "exit_code": 0, "truncated": False}
    assert texts[2].startswith("Edited src/primes.py: 1 replaced (sha256:")
    assert texts[3] == (
        "src/primes.py-1-def primes(n):\nsrc/primes.py:2:    return [2, 3, 5]\nsrc/primes.py-3-print(primes(2))"
    )
    assert texts[4] == "src/primes.py"
    head, line = texts[5].split("\n")
    assert head.startswith("[/workspace/src/primes.py: lines 2-2 of 3, sha256:") and line == "2\t    return [2, 3, 5]"


def test_a_command_that_fails_is_late_or_writes_too_much_is_a_result(call):
    failed, late, much, empty = (
        (outcome, json.loads(text))
        for outcome, text in call(
            ("bash", {"command": "echo out; echo err >&2; exit 3"}),
            ("bash", {"command": "echo begun; sleep 60", "timeout_seconds": 1}),
            ("bash", {"command": "yes"}),
            ("bash", {"command": ""}),
            tools=MachineTools(max_output_bytes=2048),
        )
    )
    assert failed == ("success", {"stdout": "out\n", "stderr": "err\n", "exit_code": 3, "truncated": False})
    assert late[1]["timed_out"] and late[1]["stdout"] == "begun\n" and "up to 600" in late[1]["note"]
    assert much[1]["limit"] == "output" and much[1]["truncated"] and len(much[1]["stdout"]) < 2200
    assert empty[1]["exit_code"] == 0


def test_a_command_may_not_ask_for_more_time_than_there_is(call):
    ((_, text),) = call(
        ("bash", {"command": "sleep 60", "timeout_seconds": 50}),
        tools=MachineTools(timeout_seconds=0.5, max_timeout_seconds=1),
    )
    assert json.loads(text)["note"].startswith("stopped after 1 s")


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("read_file", {"path": "nope"}, "No such file"),
        ("read_file", {"path": "/workspace"}, "Is a directory"),
        ("edit_file", {"path": "nope", "old_text": "a", "new_text": "b"}, "No such file"),
        ("edit_file", {"path": "two", "old_text": "a", "new_text": "b"}, "2 times"),
        ("edit_file", {"path": "two", "old_text": "c", "new_text": "b"}, "not in two"),
        ("edit_file", {"path": "two"}, "Give either"),
        ("edit_file", {"path": "two", "old_text": "", "new_text": "b"}, "empty"),
        ("edit_file", {"path": "two", "old_text": "a a", "new_text": "b", "expected_hash": "0123"}, "has changed"),
        ("write_file", {"path": "two", "content": "x", "expected_hash": "0123"}, "has changed"),
        ("write_file", {"path": "/proc/version", "content": "x"}, ""),
        ("read_file", {"path": "huge"}, "314572800 bytes"),
        ("read_file", {"path": "/dev/zero"}, "Invalid argument"),
        ("edit_file", {"path": "huge", "old_text": "a", "new_text": "b"}, "sed -n"),
        ("list_files", {"path": "two"}, "no directory"),
        ("list_files", {"path": "nope"}, "No such file"),
        ("grep", {"pattern": "("}, "("),
        ("grep", {"pattern": "a", "glob": "[z-a]"}, "glob"),
    ],
)
def test_what_cannot_be_done_is_told_and_uses_up_no_retry(call, tool, arguments, text):
    results = call(
        ("bash", {"command": "printf 'a a' >two; truncate -s 300M huge"}),
        *[(tool, arguments)] * 3,
        ("bash", {"command": "cat two"}),
    )
    assert [outcome for outcome, _ in results] == ["success", "failed", "failed", "failed", "success"]
    assert text in results[1][1]
    assert json.loads(results[-1][1])["stdout"] == "a a"


def test_an_edit_of_several_parts_happens_as_a_whole_or_not_at_all(call):
    parts = [{"old_text": "one", "new_text": "1"}, {"old_text": "1 two", "new_text": "1 2"}]
    done, failed, now, hashed = call(
        ("bash", {"command": "printf 'one two\\r\\nthree\\r\\n' >parts"}),
        ("edit_file", {"path": "parts", "replacements": [*parts, {"old_text": "nowhere", "new_text": ""}]}),
        ("bash", {"command": "cat parts"}),
        ("edit_file", {"path": "parts", "replacements": [*parts, {"old_text": "2\nthree", "new_text": "2\nfour"}]}),
    )
    assert (done[0], failed[0], hashed[0]) == ("success", "failed", "success")
    assert json.loads(now[1])["stdout"] == "one two\r\nthree\r\n"
    ((_, text),) = call(("bash", {"command": "cat parts"}))
    assert json.loads(text)["stdout"] == "1 2\r\nfour\r\n"


def test_the_hash_that_was_read_is_good_for_a_write(call):
    ((_, read),) = call(("read_file", {"path": "two"}))
    digest = read.partition("sha256:")[2].partition("]")[0]
    assert (
        call(("write_file", {"path": "two", "content": "new", "expected_hash": f"sha256:{digest}"}))[0][0] == "success"
    )


def test_long_files_and_long_lines_are_cut_and_said_so(call):
    wrote, first, rest, lines = call(
        ("bash", {"command": "seq 5000 >long; head -c 100000 /dev/zero | tr '\\0' x >line"}),
        ("read_file", {"path": "long"}),
        ("read_file", {"path": "long", "offset": 4999}),
        ("read_file", {"path": "line"}),
    )
    assert "lines 1-2000 of 5000" in first[1] and first[1].endswith("\n2000\t2000")
    assert "lines 5000-5000 of 5000" in rest[1] and rest[1].endswith("\n5000\t5000")
    assert "long lines cut" in lines[1] and len(lines[1]) < 52_000


def test_an_image_is_shown_and_a_binary_file_is_not(workspace):
    png = "printf '\\211PNG\\r\\n\\032\\n....' >a.png; head -c 100 /dev/zero >b.bin"
    model = scripted_model(
        ("bash", {"command": png}), ("read_file", {"path": "a.png"}), ("read_file", {"path": "b.bin"})
    )
    result = Agent(model, capabilities=[MachineSandbox(), MachineTools()]).run_sync("go", workspace=workspace)
    parts = [part for message in result.new_messages() for part in message.parts if part.part_kind == "tool-return"]
    image = parts[1].content
    assert isinstance(image[1], BinaryContent) and image[1].media_type == "image/png"
    assert parts[2].content.startswith("[b.bin: a binary file of 100 bytes")


def test_searches_leave_out_what_is_hidden_and_binary(call):
    make = (
        "mkdir -p s/.git s/a/b s/node; echo needle >s/.git/x; echo needle >s/.env; echo Needle >s/a/b/c.ts; echo needle >'s/a/od d\n.py';"
        "printf 'needle\\0' >s/bin; echo nothing >s/node/n.js"
    )
    _, files, some, deep, plain, cased, literal, one, none = (
        text
        for _, text in call(
            ("bash", {"command": make}),
            ("list_files", {"path": "s"}),
            ("list_files", {"path": "s", "glob": "a/**/*.ts"}),
            ("list_files", {"path": "s", "glob": "*.{ts,js}"}),
            ("grep", {"pattern": "needle", "path": "s"}),
            ("grep", {"pattern": "needle", "path": "s", "ignore_case": True, "glob": "a/**/*.ts"}),
            ("grep", {"pattern": "needle|.", "path": "s", "literal": True}),
            ("grep", {"pattern": "nothing", "path": "s/node/n.js"}),
            ("list_files", {"path": "s", "glob": "*.rs"}),
        )
    )
    assert files == "a/b/c.ts\na/od d\n.py\nbin\nnode/n.js"
    assert (some, deep) == ("a/b/c.ts", "a/b/c.ts\nnode/n.js")
    assert plain.endswith(".py:1:needle") and "git" not in plain and "bin" not in plain
    assert cased == "a/b/c.ts:1:Needle"
    assert literal == "No matches." and one == "n.js:1:nothing" and none == "No files fit '*.rs'."


@pytest.mark.parametrize(
    ("glob", "fits", "not_fits"),
    [
        ("*.py", ["a.py", "x/b.py"], ["a.pyc", "py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["b", "xa"]),
        ("./a/**", ["a/b", "a/b/c"], ["b/a"]),
        ("[!a]?", ["bc"], ["ab", "b"]),
        ("[]x]", ["]", "x"], ["y"]),
        ("{a,b*}.txt", ["a.txt", "bc.txt"], ["c.txt"]),
        ("a+b(", ["a+b("], ["aab("]),
        ("[", ["["], ["x"]),
        ("*a*b*.c", ["ab.c", "xaxbx.c", "aabb.c"], ["ba.c", "ab.cc"]),
        ("**/x/**/y", ["x/y", "a/x/b/c/y", "x/x/y"], ["y", "x/z", "xx/y"]),
        ("a/**/b/**", ["a/b/c", "a/x/b/c/d"], ["a/b", "b/c"]),
        ("a**b", ["ab", "axxb"], ["abx"]),
        ("[a-c]*/[^d]", ["ax/e"], ["dx/e", "ax/d"]),
        ("{a,b}/{c,d}.{e,f}", ["a/c.e", "b/d.f"], ["a/b.e"]),
    ],
)
def test_globs(glob, fits, not_fits):
    pattern = Pattern(glob)
    assert [path for path in [*fits, *not_fits] if pattern.fits(path)] == fits


@pytest.mark.parametrize(
    "glob",
    [
        "*a" * 60 + "b",
        "**/" * 60 + "b",
        "**/a/" * 30 + "b",
        "a*/**/" * 20 + "z",
        "{a,b}" * 20,
        "[" * 200,
        "*?" * 80 + "b",
    ],
)
def test_no_glob_keeps_the_host_busy(glob):
    """Each of these would take a backtracking matcher more than a lifetime."""
    code = (
        "from gloveport.integrations.pydantic_ai.machines.search import Pattern\n"
        f"try: pattern = Pattern({glob!r})\n"
        "except ValueError: raise SystemExit\n"
        "assert not pattern.fits('a' * 200 + '!')\n"
        "assert not pattern.fits('/'.join('a' * 60) + '!')\n"
        "assert not pattern.fits('/'.join(['aa'] * 60))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# ── runs and conversations ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_alone_finds_its_machine_again(used):
    def agent(command):
        return Agent(scripted_model(("bash", {"command": command})), capabilities=[MachineSandbox(), MachineTools()])

    first = agent("echo one >todo; setsid sleep 999 >/dev/null 2>&1 & echo $! >pid").run_sync("go")
    used.append(first.workspace.ref)
    Sandbox.connect(machine_of(first.workspace.ref)).pause()
    stored = ConversationTypeAdapter.dump_json(first.conversation)
    second = agent("cat todo; kill -0 $(cat pid) && echo alive").run_sync(
        "again", conversation=ConversationTypeAdapter.validate_json(stored)
    )
    assert json.loads(seen(second)[0][1])["stdout"] == "one\nalive\n"
    assert second.workspace.ref == first.workspace.ref
    assert {m.workspace_ref for m in second.all_messages() if isinstance(m, ModelResponse)} == {first.workspace.ref}
    Sandbox.kill_by_id(machine_of(first.workspace.ref))
    with pytest.raises(WorkspaceUnavailableError):
        agent("true").run_sync("again", conversation=second.conversation)
    fresh = agent("cat todo").run_sync("again", conversation=second.conversation, workspace="new")
    used.append(fresh.workspace.ref)
    assert json.loads(seen(fresh)[0][1])["exit_code"] == 1


def test_runs_have_machines_of_their_own(used):
    agent = Agent(
        scripted_model(("bash", {"command": "ls; touch mine"})), capabilities=[MachineSandbox(), MachineTools()]
    )
    results = [agent.run_sync("go") for _ in range(2)]
    used.extend(result.workspace.ref for result in results)
    assert [json.loads(seen(result)[0][1])["stdout"] for result in results] == ["", ""]
    assert len({result.workspace.ref for result in results}) == 2


def test_a_read_only_workspace_can_be_read_and_not_written(workspace):
    backend = ReadOnlyWorkspace(Workspace(MachineSandbox().backend(workspace)))
    assert set(MachineTools(writable=False).get_toolset().tools) == {"read_file", "list_files", "grep"}
    agent = Agent(
        scripted_model(("write_file", {"path": "new", "content": ""}), ("read_file", {"path": "two"})),
        capabilities=[MachineTools()],
    )
    (written, _), (read, _) = seen(agent.run_sync("go", workspace=backend))
    assert (written, read) == ("failed", "success")


def test_the_tools_can_be_deferred():
    tools = MachineTools(defer_loading=True)
    assert "bash" in tools.description
    with pytest.raises(ValueError, match="at most"):
        MachineTools(timeout_seconds=700)
    with pytest.raises(ValueError, match="max_output_bytes"):
        MachineTools(max_output_bytes=1)


def test_a_run_with_the_test_model_ends_well(used):
    """It calls every tool with made-up arguments."""
    agent = Agent(TestModel(), capabilities=[MachineSandbox(), MachineTools()])
    result = agent.run_sync("go")
    used.append(result.workspace.ref)
    assert len(seen(result)) == 6


def test_commands_say_that_they_are_code():
    tools = MachineTools().get_toolset().tools
    assert tools["bash"].metadata == {"code_arg_name": "command", "code_arg_language": "bash"}
    described = tools["bash"].function_schema.json_schema["properties"]
    assert set(described) == {"command", "timeout_seconds"} and described["command"]["description"]


def test_usage_limits_end_a_run_of_many_calls(used):
    from pydantic_ai import UsageLimits

    agent = Agent(scripted_model(*[("bash", {"command": "true"})] * 5), capabilities=[MachineSandbox(), MachineTools()])
    with pytest.raises(UsageLimitExceeded):
        agent.run_sync("go", usage_limits=UsageLimits(request_limit=3))
    for info in Sandbox.list(status="active"):
        if info.name == "agent" and info.id not in map(machine_of, used):
            Sandbox.kill_by_id(info.id)
