"""TypeScript declarations of tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .declarations import Declarations, doc_comment, indented
from .spec import Parameter, Tools, ToolSpec, build_specs

__all__ = ("Signature", "stubs_of", "typescript_stubs")


def typescript_stubs(tools: Tools, *, namespace: str | None = None, tools_catalog: Any = None) -> str:
    """The tools as the text of a `.d.ts` file: types that they share, then one function each.

    Args:
        tools: as for a session.
        namespace: the object that the tools are properties of; `None`: they are globals.
        tools_catalog: as for a session. Only the functions that search it are declared, and its object.

    Raises `TypeError` and `ValueError` as a session does. No tools give the empty string.
    """
    specs = build_specs(tools, namespace=namespace)
    if tools_catalog is None:
        return stubs_of(specs.values(), namespace=namespace)
    from .finders import session_catalog  # it describes tools with what is here

    catalog = session_catalog(tools_catalog, specs, namespace)
    return stubs_of({**specs, **catalog.specs}.values(), namespace=namespace, catalog=catalog.object)


def stubs_of(specs: Iterable[ToolSpec], *, namespace: str | None = None, catalog: str | None = None) -> str:
    """The same for tools that were checked before. `catalog` is the name of the catalog's object."""
    declarations = Declarations()
    prefix = "function " if namespace else "declare function "
    functions = [_function(spec, declarations, "" if namespace and catalog else prefix) for spec in specs]
    if catalog and namespace:  # one object for both, which a `namespace` of TypeScript could not say
        methods = "\n\n".join(indented(function) for function in functions)
        functions = [f"{_ANY_COMMENT}declare const {catalog}: {{\n{methods}\n}} & {_ANY_TOOL};"]
    elif catalog:
        functions.append(f"{_ANY_COMMENT}declare const {catalog}: {_ANY_TOOL};")
    elif namespace and functions:
        body = "\n\n".join(indented(function) for function in functions)
        functions = [f"declare namespace {namespace} {{\n{body}\n}}"]
    return "".join(f"{text}\n\n" for text in [*declarations.texts(), *functions])[:-1]


_ANY_COMMENT = "/** Every tool that a search found, by its name. */\n"
_ANY_TOOL = "{\n  readonly [name: string]: (args?: Record<string, unknown>) => Promise<any>;\n}"


def _function(spec: ToolSpec, declarations: Declarations, prefix: str) -> str:
    comment = doc_comment(spec.description, one_line=spec.schema_tool)
    signatures = spec.signatures or (str(Signature(spec, declarations)),)
    return comment + "\n".join(f"{prefix}{signature};" for signature in signatures)


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
