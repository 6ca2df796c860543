"""TypeScript declarations of tools."""

from __future__ import annotations

from collections.abc import Iterable

from .declarations import Declarations, doc_comment, indented
from .spec import Parameter, Tools, ToolSpec, build_specs

__all__ = ("Signature", "stubs_of", "typescript_stubs")


def typescript_stubs(tools: Tools, *, namespace: str | None = None) -> str:
    """The tools as the text of a `.d.ts` file: types that they share, then one function each.

    Args:
        tools: as for a session.
        namespace: the object that the tools are properties of; `None`: they are globals.

    Raises `TypeError` and `ValueError` as a session does. No tools give the empty string.
    """
    return stubs_of(build_specs(tools, namespace=namespace).values(), namespace=namespace)


def stubs_of(specs: Iterable[ToolSpec], *, namespace: str | None = None) -> str:
    """The same for tools that were checked before."""
    declarations = Declarations()
    functions = [_function(spec, declarations, "" if namespace else "declare ") for spec in specs]
    if namespace and functions:
        body = "\n\n".join(indented(function) for function in functions)
        functions = [f"declare namespace {namespace} {{\n{body}\n}}"]
    return "".join(f"{text}\n\n" for text in [*declarations.texts(), *functions])[:-1]


def _function(spec: ToolSpec, declarations: Declarations, prefix: str) -> str:
    signature = Signature(spec, declarations)
    comment = doc_comment(spec.description, one_line=spec.schema_tool)
    return f"{comment}{prefix}function {signature};"


class Signature:
    """A tool's `name(parameters): Promise<result>`."""

    def __init__(self, spec: ToolSpec, declarations: Declarations) -> None:
        self.spec = spec
        if spec.schema_tool:
            schema = {"type": "object", **spec.input_schema}
            mark = "" if schema.get("required") else "?"
            parameters = [f"args{mark}: {declarations.type_of(schema, f'{spec.js_name}_args', 'input')}"]
        else:
            parameters = [_parameter(parameter, declarations) for parameter in spec.parameters]
        result = "unknown"
        if spec.output_schema is not None:
            result = declarations.type_of(spec.output_schema, f"{spec.js_name}_result", "output")
        self.text = f"{spec.js_name}({', '.join(parameters)}): Promise<{result}>"

    def __str__(self) -> str:
        return self.text


def _parameter(parameter: Parameter, declarations: Declarations) -> str:
    kind = declarations.type_of(parameter.schema, parameter.js_name, "input")
    if parameter.variadic:
        return f"...{parameter.js_name}: {kind.element}[]"
    return f"{parameter.js_name}{'' if parameter.required else '?'}: {kind}"
