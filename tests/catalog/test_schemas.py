"""Schemas of strangers: whatever JSON they hold, a tool can be declared, described and searched."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gloveport import SchemaTool, describe_tools, typescript_stubs
from gloveport.tools.finders import session_catalog
from gloveport.wire.values import encode

KEYWORDS = """
    type properties required items prefixItems enum const default examples anyOf oneOf allOf $ref $defs definitions
    additionalProperties nullable description title minItems
""".split()
WORDS = ["object", "array", "string", "null", "#/$defs/a", "#", "#/properties/x/²", "http://x", "x", "*/", "__proto__"]

_leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=4)
_keys = st.sampled_from([*KEYWORDS, "a", "x"]) | st.text(max_size=3)
_json = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=5), max_leaves=25
)
_schemas = st.dictionaries(st.sampled_from(KEYWORDS), _json, max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_schemas, st.none() | _schemas, st.text(max_size=30))
def test_any_schema(input_schema, output_schema, description):
    tool = SchemaTool("a", description, input_schema, len, output_schema)
    assert "function a(args" in typescript_stubs([tool])
    assert "a(" in describe_tools([tool])
    catalog = session_catalog([tool], {}, None)
    told = catalog.describe_tool("a")
    assert "function a(args" in told["typescript"]
    encode(told)
    assert catalog.search_tools("a")[0]["name"] == "a"
