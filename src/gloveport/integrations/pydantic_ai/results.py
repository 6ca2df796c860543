"""What the model is given for a script."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolReturn, UserContent

from ...errors import JavaScriptError, TypeCheckError
from ...types import Done, ExecutionResult, Failed

__all__ = ("failure", "lost", "success", "well_formed")


def success(step: Done, notes: Sequence[str], content: Sequence[UserContent]) -> ToolReturn[Any]:
    """The bare value; an object with `result` and what else there is to say when there is something.

    `metadata`, which the model does not get, is the whole `ExecutionResult` as a dict.
    """
    result = _clean_result(step)
    more = {"stdout": result.stdout, "stderr": result.stderr, "notes": list(notes), "type_problems": _problems(result)}
    more = {key: value for key, value in more.items() if value}
    value = {"result": result.result, **more} if more else result.result
    return ToolReturn(return_value=value, content=list(content) or None, metadata=result.to_dict())


def _clean_result(step: Done | Failed) -> ExecutionResult:
    """Without lone surrogates, which JavaScript strings may hold and no JSON to a model may: they would end the run."""
    result = step.to_result()
    return dataclasses.replace(
        result,
        stdout=well_formed(result.stdout),
        stderr=well_formed(result.stderr),
        result=well_formed(result.result),
        error=well_formed(result.error),
        error_type=well_formed(result.error_type),
    )


def _problems(result: ExecutionResult) -> list[str]:
    return [well_formed(f"line {problem}") if problem.line else str(problem) for problem in result.problems]


def well_formed(value: Any) -> Any:
    """The same data with U+FFFD for every lone surrogate (String.prototype.toWellFormed, ECMA-262 22.1.3.33)."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [well_formed(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {well_formed(key): well_formed(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def failure(step: Failed, notes: Sequence[str]) -> ToolFailed:
    """The error with its place, then the console output. A failed result: it uses up no retries."""
    result = _clean_result(step)
    if isinstance(step.error, TypeCheckError):
        listed = "\n".join(_problems(result))
        text = f"Nothing was run, because the types do not fit. Correct the script and call again.\n{listed}"
        return ToolFailed("\n".join([text, *notes]))
    text = result.error or "the script failed"
    if result.line:
        source = step.error.source_line if isinstance(step.error, JavaScriptError) else ""
        text += f"\n  at line {result.line}" + (f": {well_formed(source.strip())}" if source.strip() else "")
    for name, output in (("stdout", result.stdout), ("stderr", result.stderr)):
        if output:
            text += f"\n{name}:\n{output}"
    if problems := _problems(result):
        text += "\ntype problems that may be why:\n" + "\n".join(problems)
    return ToolFailed("\n".join([text, *notes]))


def lost(tool: str, reason: str) -> ToolFailed:
    """The session is gone: said, and nothing is run in a new one that the model would take for the old one."""
    return ToolFailed(
        f"The session is lost: {reason}. Nothing was run, and what earlier scripts declared is gone. "
        f"Call `{tool}` with restart=true for a new session, and declare again what you need."
    )
