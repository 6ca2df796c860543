"""LangChain's tests of sandboxes, on a machine. Run by `test_elsewhere.py`, in an environment of its own."""

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from gloveport import Sandbox
from gloveport.deepagents import GloveportSandbox


class TestMachine(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        with Sandbox.create("deepagents") as sandbox:
            # The suite calls it `python`, and Debian has `python3` only.
            sandbox.commands.run("ln -s /usr/bin/python3 /usr/local/bin/python", check=True)
            yield GloveportSandbox(sandbox)


def test_what_goes_wrong_is_told_in_the_words_of_deepagents():
    with Sandbox.create("deepagents", timeout_seconds=None) as sandbox:
        backend = GloveportSandbox(sandbox, timeout_seconds=0.5)
        late = backend.execute("echo begun; echo badly >&2; sleep 60")
        assert (late.exit_code, late.output.split("\n")[:2]) == (124, ["begun", "badly"])
        assert backend.execute("sleep 1; exit 3", timeout=30).exit_code == 3
        sandbox.commands.run("touch locked; chmod 0 locked", check=True)
        found = backend.download_files(["/workspace", "relative", "/nope", "/workspace/locked", "/etc/hostname/x"])
        assert [answer.error for answer in found] == [
            "is_directory",
            "invalid_path",
            "file_not_found",
            "permission_denied",
            "invalid_path",
        ]
        told = backend.upload_files([("/workspace/a/b", b"1"), ("/etc/new", b""), ("/workspace", b"")])
        assert [answer.error for answer in told] == [None, "permission_denied", "is_directory"]
        assert sandbox.files.read("/workspace/a/b") == b"1" and backend.id == sandbox.id
