"""The harness of Pydantic AI on a machine. Run by `test_elsewhere.py`, in an environment of its own."""

import pytest
from pydantic_ai import Agent, ConversationTypeAdapter
from pydantic_ai.workspaces import WorkspaceUnavailableError
from pydantic_ai_harness import Coder, FileSystem, Shell

from gloveport import Sandbox
from gloveport.pydantic_ai import MachineSandbox
from gloveport.testing import scripted_model

pytestmark = pytest.mark.usefixtures("loops")


def ran(*calls, tools, **options):
    result = Agent(scripted_model(*calls), capabilities=[MachineSandbox(), *tools]).run_sync("go", **options)
    parts = [part for message in result.new_messages() for part in message.parts if part.part_kind == "tool-return"]
    return result, [part.model_response_str() for part in parts]


def test_coder():
    first, texts = ran(
        ("write_file", {"path": "a.py", "content": "print(1 + 1)\n"}),
        ("shell", {"command": "python3 a.py"}),
        ("read_file", {"path": "a.py"}),
        ("edit_file", {"path": "a.py", "old_text": "1 + 1", "new_text": "20 + 22"}),
        ("grep", {"pattern": "22"}),
        ("list_files", {}),
        ("shell", {"command": "python3 a.py; exit 3"}),
        tools=[Coder(sub_agents=False)],
    )
    assert "2" in texts[1] and "print(1 + 1)" in texts[2]
    assert "a.py" in texts[4] and "a.py" in texts[5]
    assert "42" in texts[6] and '"exit_code": 3' in texts[6]
    stored = ConversationTypeAdapter.validate_json(ConversationTypeAdapter.dump_json(first.conversation))
    again, texts = ran(("shell", {"command": "python3 a.py"}), tools=[Coder(sub_agents=False)], conversation=stored)
    assert "42" in texts[0] and again.workspace.ref == first.workspace.ref
    Sandbox.kill_by_id(first.workspace.ref.id.partition(".")[0])
    with pytest.raises(WorkspaceUnavailableError):
        ran(("shell", {"command": "true"}), tools=[Coder(sub_agents=False)], conversation=again.conversation)


def test_shell_and_file_system():
    result, texts = ran(
        ("run_command", {"command": "echo hi; exit 3"}),
        ("run_command", {"command": "sleep 60", "timeout_seconds": 1}),
        ("start_command", {"command": "sleep 1; echo later"}),
        ("create_directory", {"path": "d"}),
        ("write_file", {"path": "d/f", "content": "text"}),
        ("find_files", {"pattern": "**/f"}),
        ("search_files", {"pattern": "te.t"}),
        ("file_info", {"path": "d/f"}),
        ("read_file", {"path": "../etc/passwd"}),
        tools=[Shell(), FileSystem()],
    )
    assert "hi" in texts[0] and "3" in texts[0]
    assert "timed out" in texts[1].lower()
    assert all("d/f" in text for text in texts[5:7])
    assert "root:" not in texts[8]
    Sandbox.kill_by_id(result.workspace.ref.id.partition(".")[0])
