"""Data that is given to a module by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ...errors import ValueCrossingError
from ...types import json_data
from ...wire.values import TAGGED, decode, encode

__all__ = ("encoded_inputs",)

_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        "arguments await break case catch class const continue debugger default delete do else enum eval export extends false "
        "finally for function if implements import in instanceof interface let new null package private protected public return "
        "static super switch this throw true try typeof var void while with yield undefined NaN Infinity",
    )
)
"""ECMA-262 12.7.2, with what strict code and modules add."""
_MAX_BYTES: Final = 32 * 1024 * 1024


def encoded_inputs(inputs: Mapping[str, Any]) -> bytes:
    """Inputs as one JSON object; dates as ISO 8601, bytes as base64.

    Raises `TypeError`, `ValueError` for a name that is no variable of JavaScript, and `ValueCrossingError` for what is no data.
    """
    if not isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`inputs` must be a mapping of names to JSON data, not {type(inputs).__name__}")
    for name in inputs:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the names of `inputs` are strings, not {name!r}")
        if not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            raise ValueError(f"the input {name!r} cannot be a variable in JavaScript: use letters, digits and _")
    data = encode(dict(inputs))
    if b'{"$":' in data:  # what JSON does not have
        data = msgspec.json.encode(json_data(decode(data, TAGGED)))
    if len(data) > _MAX_BYTES:
        raise ValueCrossingError(f"the inputs have {len(data)} bytes as JSON; at most {_MAX_BYTES} can be given")
    return data
