"""What an application can grant a module, and what it cannot."""

from __future__ import annotations

import os

import pytest

from gloveport import NetworkRules, Runtime, RuntimePermissions, TypeScriptSandboxSession

from .conftest import opened


@pytest.fixture
def folders(tmp_path_factory):
    """Three directories that everyone may read and write."""
    made = []
    for name in ("read", "write", "other"):
        path = tmp_path_factory.mktemp(name)
        path.chmod(0o777)
        (path / "a.txt").write_text(name)
        (path / "a.txt").chmod(0o666)
        made.append(path)
    return made


def granted(**permissions):
    return opened(runtime=Runtime(permissions=RuntimePermissions(**permissions)))


def test_nothing_is_granted_by_default(module, folders):
    for source in (
        f"Deno.readTextFileSync('{folders[0]}/a.txt')",
        "Deno.readDirSync('/')",
        "Deno.writeTextFileSync('/workspace/x', '')",
        "Deno.env.get('HOME')",
        "Deno.env.toObject()",
        "Deno.hostname()",
        "Deno.osRelease()",
        "Deno.networkInterfaces()",
        "Deno.listen({ port: 0 })",
        "await Deno.connect({ port: 80 })",
        "await Deno.resolveDns('localhost', 'A')",
        "await fetch('http://localhost:8000')",
        "new Deno.Command('/bin/true').outputSync()",
        "Deno.dlopen('/lib/x86_64-linux-gnu/libc.so.6', {})",
        "(await import('node:child_process')).execFileSync('/bin/true')",
        "(await import('node:fs')).readFileSync('/etc/passwd')",
        "(await import('node:fs')).readdirSync('/')",
        "(await import('node:os')).hostname()",
        "Deno.permissions.requestSync({ name: 'read' }).state === 'granted' || Deno.readDirSync('/')",
    ):
        result = module.fails(source)
        assert result.exit_reason == "threw", (source, result.error)
        if "Dns" not in source and "true" not in source:  # those fail before they come to a permission
            assert result.error_type == "NotCapable", (source, result.error)
    assert module.value("Object.keys(process.env)") == []


def test_nothing_of_the_machine_shows(module):
    cwd, pid, ppid, program, argv, main = module.value(
        "[Deno.cwd(), Deno.pid, Deno.ppid, Deno.execPath(), process.argv, Deno.mainModule]"
    )
    assert (cwd, pid, ppid, program) == ("/workspace", 1, 0, "/gloveport/deno")
    assert argv == ["/gloveport/deno", "/gloveport/module.js"]
    assert main == "file:///gloveport/module.js"
    zone = "[new Date(2020, 0, 1).getTimezoneOffset(), Intl.DateTimeFormat().resolvedOptions().timeZone]"
    assert module.value(zone) == [0, "UTC"]
    assert module.value("[navigator.language, (1234.5).toLocaleString()]") == ["en-US", "1,234.5"]


def test_paths(folders):
    read, write, other = folders
    with granted(allow_read=[str(read)], allow_write=[str(write)]) as module:
        assert module.value(f"Deno.readTextFileSync('{read}/a.txt')") == "read"
        assert module.fails(f"Deno.writeTextFileSync('{read}/a.txt', 'x')").error_type == "NotCapable"
        assert (
            module.value(f"Deno.writeTextFileSync('{write}/b.txt', 'new'); Deno.readTextFileSync('{write}/b.txt')")
            == "new"
        )
        assert (write / "b.txt").read_text() == "new"
        assert module.fails(f"Deno.readTextFileSync('{other}/a.txt')").error_type == "NotCapable"
        assert (read / "a.txt").read_text() == "read"


def test_a_link_inside_leads_nowhere(folders):
    read, _, other = folders
    os.symlink(other / "a.txt", read / "link")
    with granted(allow_read=[str(read)]) as module:
        assert not module(f"Deno.readTextFileSync('{read}/link')").ok


def test_environment(monkeypatch):
    monkeypatch.setenv("SHOWN", "value")
    monkeypatch.setenv("HIDDEN", "secret")
    with granted(allow_env=["SHOWN", "MISSING"]) as module:
        assert module.value("[Deno.env.get('SHOWN'), process.env.SHOWN, Deno.env.get('MISSING')]") == [
            "value",
            "value",
            None,
        ]
        assert module.fails("Deno.env.get('HIDDEN')").error_type == "NotCapable"
        assert module.value("[Object.keys(process.env), Deno.args, process.argv.length]") == [["SHOWN"], [], 2]


def test_system():
    with granted(allow_sys=["cpus"]) as module:
        assert module.value("(await import('node:os')).cpus().length >= 0") is True
        assert module.fails("Deno.osRelease()").error_type == "NotCapable"


def test_an_empty_list_grants_nothing(folders):
    with granted(allow_read=[], allow_write=[], allow_env=[], allow_sys=[]) as module:
        assert module.fails(f"Deno.readTextFileSync('{folders[0]}/a.txt')").error_type == "NotCapable"
        assert module.fails("Deno.env.get('HOME')").error_type == "NotCapable"
        assert module.fails("Deno.hostname()").error_type == "NotCapable"


@pytest.mark.parametrize(
    ("permissions", "error", "words"),
    [
        ({"allow_run": ["ls"]}, ValueError, "machine"),
        ({"allow_ffi": ["x.so"]}, ValueError, "machine"),
        ({"allow_read": True}, TypeError, "list"),
        ({"allow_read": None}, TypeError, "list"),
        ({"allow_read": "/data"}, TypeError, "list"),
        ({"allow_read": ["data"]}, ValueError, "absolute"),
        ({"allow_read": ["/"]}, ValueError, "root"),
        ({"allow_read": ["/a/../b"]}, ValueError, "absolute"),
        ({"allow_read": ["/a,/etc"]}, ValueError, "character"),
        ({"allow_read": ["/workspace/x"]}, ValueError, "jail"),
        ({"allow_write": ["/proc/self"]}, ValueError, "jail"),
        ({"allow_env": ["LD_PRELOAD"]}, ValueError, "LD_PRELOAD"),
        ({"allow_env": ["A=B"]}, ValueError, "A=B"),
        ({"allow_env": ["--allow-all"]}, ValueError, "allow-all"),
        ({"allow_sys": ["everything"]}, ValueError, "everything"),
        ({"allow_net": ["example.com"]}, TypeError, "NetworkRules"),
    ],
)
def test_what_cannot_be_granted_is_refused(permissions, error, words):
    with pytest.raises(error, match=words):
        RuntimePermissions(**permissions)


def test_a_runtime_stands_alone():
    runtime = Runtime(permissions=RuntimePermissions())
    for options in ({"max_memory_mb": 100}, {"sandbox": "off"}, {"max_old_generation_size_mb": None}):
        with pytest.raises(ValueError, match="runtime"):
            TypeScriptSandboxSession(runtime=runtime, **options)
    with pytest.raises(TypeError):
        Runtime(permissions={})
    with pytest.raises(ValueError):
        Runtime(max_memory_mb=1)
    assert RuntimePermissions(allow_net=NetworkRules()).allow_net == NetworkRules()


def test_a_path_that_is_not_there_is_told():
    from gloveport import TypeScriptSandboxUnavailableError

    with pytest.raises(TypeScriptSandboxUnavailableError, match="nowhere"), granted(allow_read=["/nowhere/at/all"]):
        pass


def test_without_a_jail_the_rest_holds():
    with opened(sandbox="off") as module:
        (module.session.workspace / "a.json").write_text("[1]")
        assert module.value("import a from './a.json' with { type: 'json' };\nexport default () => a") == [1]
        assert module.fails("Deno.readTextFileSync('/etc/passwd')").error_type == "NotCapable"
        thrown = module.fails("const a = 1;\nthrow new TypeError('x')")
        assert (thrown.error_type, thrown.line) == ("TypeError", 2)
        assert module.fails("Deno.exit(2)").exit_code == 2
        assert module.value("Deno.readTextFileSync('a.json')") == "[1]"
        (module.session.workspace / "b").write_text("later")
        assert module.value("Deno.readTextFileSync('b')") == "later"
