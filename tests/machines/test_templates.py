"""Templates: steps, layers that are made once, and what is left when a step fails."""

from __future__ import annotations

import asyncio

import pytest

from gloveport import (
    AsyncTemplate,
    CopyStep,
    EnvStep,
    RunStep,
    Sandbox,
    Template,
    TemplateBuildError,
    TemplateNotFoundError,
    UserStep,
    ValidationError,
    WorkdirStep,
)
from gloveport.machines.estate import estate


@pytest.fixture(autouse=True)
def clean(state):
    yield
    for template in Template.list():
        template.delete()
    assert [info.name for info in Sandbox.list() if info.name == "template"] == []


def layers():
    return {layer for layer in estate().layers.ids() if layer.startswith("step-")}


def test_steps_are_there_in_every_machine(tmp_path):
    (tmp_path / "app" / "deep").mkdir(parents=True)
    (tmp_path / "app" / "deep" / "main.py").write_text("import os; print(os.environ['MODE'], os.getcwd())")
    said = []
    made = Template.create(
        "app:1",
        [
            RunStep(
                "mkdir -p /opt/tool && echo tool >/opt/tool/made && chown -R user:user /opt/tool && id -un >>/opt/tool/made"
            ),
            EnvStep("MODE", "fast"),
            WorkdirStep("/srv/app"),
            CopyStep(tmp_path / "app", "/srv/app"),
            UserStep("user"),
            RunStep('echo "$MODE $(pwd) $(id -un)" >/tmp/seen; ls -A /workspace >>/tmp/seen'),
        ],
        on_log=said.append,
    )
    assert (made.name, dict(made.env), made.workdir, made.user) == ("app:1", {"MODE": "fast"}, "/srv/app", "user")
    assert [line for line in "".join(said).splitlines() if line.startswith("[6/6] run")]
    with Sandbox.create(from_template="app:1") as one, Sandbox.create(from_template="app:1") as two:
        assert one.commands.run("cat /opt/tool/made /tmp/seen").stdout == "tool\nroot\nfast /srv/app user\n"
        assert one.commands.run("python3 deep/main.py").stdout == "fast /srv/app\n"
        one.commands.run("rm -r /opt/tool; echo mine >/tmp/seen")
        assert two.commands.run("cat /tmp/seen").stdout == "fast /srv/app user\n"
        assert two.commands.run("test -e /srv/app/deep && id -un").stdout == "user\n"


def test_a_layer_is_made_once_and_again_when_something_below_it_is_different(tmp_path):
    stamp = "date +%s%N >"
    first = Template.create("a", [RunStep(f"{stamp} /opt/1"), RunStep(f"{stamp} /opt/2"), RunStep(f"{stamp} /opt/3")])
    made = layers()

    def read(name):
        with Sandbox.create(from_template=name) as sandbox:
            return sandbox.commands.run("cat /opt/1 /opt/2 /opt/3").stdout.split()

    stamps, said = read("a"), []
    again = Template.create(
        "b", [{"run": f"{stamp} /opt/1"}, {"run": f"{stamp} /opt/2"}, {"run": f"{stamp} /opt/3"}], on_log=said.append
    )
    assert layers() == made and read("b") == stamps and "".join(said).count("as before") == 3
    assert again.layers == first.layers
    Template.create("c", [RunStep(f"{stamp} /opt/1"), RunStep(f"{stamp} /opt/2 #"), RunStep(f"{stamp} /opt/3")])
    third = read("c")
    assert third[0] == stamps[0] and third[1] != stamps[1] and third[2] != stamps[2]
    Template.create(
        "c", [RunStep(f"{stamp} /opt/1"), EnvStep("A", "1"), RunStep(f"{stamp} /opt/2"), RunStep(f"{stamp} /opt/3")]
    )
    assert read("c")[0] == stamps[0] and read("c")[1] not in (stamps[1], third[1])
    Template.create(
        "d", [RunStep(f"{stamp} /opt/1"), RunStep(f"{stamp} /opt/2"), RunStep(f"{stamp} /opt/3")], rebuild=True
    )
    assert not set(read("d")) & set(stamps)


def test_what_is_copied_decides_whether_it_is_copied_again(tmp_path):
    file = tmp_path / "f"

    def build(text, mode=0o644):
        file.write_text(text)
        file.chmod(mode)
        Template.create("f", [CopyStep(file, "/opt/deep/f"), RunStep("stat -c %a /opt/deep/f >/opt/mode")])
        with Sandbox.create(from_template="f") as sandbox:
            return sandbox.commands.run("cat /opt/deep/f /opt/mode").stdout

    assert build("one") == "one644\n"
    made = layers()
    assert build("one") == "one644\n" and layers() == made
    assert build("two") == "two644\n" and layers() != made
    assert build("two", 0o755) == "two755\n"


def test_a_template_on_a_template():
    Template.create("below", [RunStep("echo below >/opt/f"), EnvStep("A", "a"), UserStep("root")])
    Template.create("above", [RunStep("echo $A >>/opt/f; id -un >>/opt/f")], from_="below")
    Template.delete_by_name("below")
    with Sandbox.create(from_template="above") as sandbox:
        assert sandbox.commands.run("cat /opt/f; echo $A; id -u").stdout == "below\na\nroot\na\n0\n"


def test_a_step_that_fails_says_what_it_printed_and_changes_nothing():
    Template.create("t", [RunStep("echo good >/opt/f")])
    with pytest.raises(
        TemplateBuildError, match=r"step 2 \('run echo out; echo err >&2; exit 3'\) failed: err"
    ) as caught:
        Template.create("t", [RunStep("echo bad >/opt/f"), RunStep("echo out; echo err >&2; exit 3"), RunStep("true")])
    assert (caught.value.step, caught.value.exit_code, caught.value.stdout) == (2, 3, "out\n")
    with Sandbox.create(from_template="t") as sandbox:
        assert sandbox.commands.run("cat /opt/f").stdout == "good\n"
    with pytest.raises(TemplateBuildError) as caught:
        Template.create("t", [RunStep("sleep 60", timeout_seconds=0.5)])
    assert caught.value.result.timed_out


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ("run true", "list of steps"),
        ([{"run": "true", "env": "x"}], "no step"),
        ([{"sudo": "true"}], "one of run, env"),
        ([{"run": ["a", "b"]}], "no step"),
        ([{"env": "A"}], "no step"),
        (["true"], "no step"),
        ([WorkdirStep("here")], "absolute"),
        ([CopyStep("/nope", "/x")], "cannot be read"),
        ([EnvStep("A B", "")], "name"),
        ([UserStep("No One")], "user"),
        ([RunStep("true", timeout_seconds=-1)], "timeout_seconds"),
    ],
)
def test_steps_that_are_none(steps, text):
    before = layers()
    with pytest.raises(ValidationError, match=text):
        Template.create("t", steps)
    assert layers() == before and Template.list() == []


def test_names():
    for name in ("host", "debian", "Up", "", "../x", "a b"):
        with pytest.raises(ValidationError):
            Template.create(name)
    with pytest.raises(TemplateNotFoundError, match="there are: none"):
        Template.get("nope")
    assert Template.delete_by_name("nope") is False
    with pytest.raises(TemplateNotFoundError):
        Template.create("x", from_="nope")


def test_what_no_template_uses_any_more_is_collected():
    Template.create("t", [RunStep("echo 1 >/opt/f"), RunStep("echo 2 >/opt/f")])
    with Sandbox.create(from_template="t") as sandbox:
        Template.get("t").delete()
        estate().collect(everything=True, young=0)
        assert sandbox.commands.run("cat /opt/f").stdout == "2\n"
    estate().collect(everything=True, young=0)
    assert layers() == set()


def test_in_an_event_loop():
    async def main():
        made = await AsyncTemplate.create("async", [{"run": "echo x >/opt/f"}, {"env": {"A": "1", "B": "2"}}])
        assert isinstance(made, AsyncTemplate) and dict(made.env) == {"A": "1", "B": "2"}

    asyncio.run(main())
    assert [template.name for template in Template.list()] == ["async"]
