"""What `http_fetch` was told, checked once."""

from __future__ import annotations

import dataclasses
import re
import ssl
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from .._version import __version__
from ..policy import MIB, NetworkRule, NetworkRules, check_count, check_seconds
from .credentials import OF_THE_CONNECTION, Credentials, FieldPairs, check_fields
from .evaluator import Destination, Evaluator
from .urls import Url

__all__ = (
    "BODY_METHODS",
    "RESPONSE_HEADERS",
    "FetchOptions",
    "Overflow",
    "Redirects",
    "ResponseKind",
    "checked_options",
)

Redirects = Literal["same-origin", "allow-list", "never"]
ResponseKind = Literal["text", "bytes", "json"]
Overflow = Literal["truncate", "refuse"]
RESPONSE_HEADERS: Final = (
    "content-type",
    "content-length",
    "content-language",
    "etag",
    "last-modified",
    "cache-control",
    "expires",
    "date",
    "retry-after",
    "location",
    "link",
)
BODY_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE", "QUERY")
_METHODS: Final = ("GET", "HEAD", "OPTIONS", *BODY_METHODS)
"""`CONNECT` and `TRACE` are no requests for a resource: the one opens a tunnel, the other repeats the credentials."""
_SECRET_NAMES: Final = frozenset({"authorization", "cookie", "x-api-key", "api-key"})
_NEVER_TO_THE_GUEST: Final = frozenset({"set-cookie", "set-cookie2"})
_NEVER_FROM_THE_GUEST: Final = OF_THE_CONNECTION | {
    "cookie",
    "authorization",
    "content-encoding",
    "forwarded",
    "x-forwarded-for",
}
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """Checked options of one `http_fetch`."""

    evaluator: Evaluator
    schemes: tuple[str, ...]
    methods: tuple[str, ...]
    """Every method that some rule allows."""
    headers: FieldPairs
    credentials: Credentials
    timeout: float
    max_response_bytes: int
    max_request_bytes: int
    max_url_length: int
    max_redirects: int
    redirects: Redirects
    response: ResponseKind
    response_headers: frozenset[str]
    request_headers: frozenset[str]
    query: Literal["allow", "deny"] | tuple[str, ...]
    overflow: Overflow
    ssl_context: ssl.SSLContext | None
    user_agent: str = f"gloveport/{__version__}"


def checked_options(
    *,
    allow: Iterable[str | NetworkRule],
    rules: NetworkRules | None,
    schemes: Iterable[str],
    methods: Iterable[str],
    headers: Mapping[str, str] | None,
    credentials: Mapping[str, Mapping[str, str] | str] | None,
    response_headers: Iterable[str],
    request_headers: Iterable[str] | None,
    query: Literal["allow", "deny"] | Collection[str],
    **rest: Any,
) -> FetchOptions:
    """The options, or `TypeError` and `ValueError` that say what is wrong."""
    _check_numbers(rest)
    _check_choices(rest)
    _check_context(rest["ssl_context"])
    defaults = _names("methods", methods, _METHODS)
    all_rules = _all_rules(allow, rules)
    used = tuple(dict.fromkeys(method for rule in all_rules.allow for method in rule.methods or defaults))
    _names("methods", used, _METHODS)
    allowed_schemes = _names("schemes", schemes, ("http", "https"))
    fixed = check_fields("headers", headers or {})
    secret = [value for name, value in fixed if name in _SECRET_NAMES]
    if secret and (
        rules is not None or len({rule.host for rule in all_rules.allow}) != 1 or "*" in all_rules.allow[0].host
    ):
        raise ValueError("`headers` go to every allowed host: a header with a secret belongs into `credentials`")
    known = Credentials(credentials or {}, secret)
    evaluator = Evaluator(all_rules, methods=defaults)
    _check_origins(known, all_rules, allowed_schemes)
    if request_headers is None:
        request_headers = ("content-type",) if set(used) & set(BODY_METHODS) else ()
    return FetchOptions(
        evaluator=evaluator,
        schemes=allowed_schemes,
        methods=tuple(method for method in _METHODS if method in used),
        headers=fixed,
        credentials=known,
        response_headers=_headers("response_headers", response_headers, _NEVER_TO_THE_GUEST),
        request_headers=_headers(
            "request_headers", request_headers, _NEVER_FROM_THE_GUEST | known.names | {name for name, _ in fixed}
        ),
        query=_query(query),
        **rest,
    )


def _all_rules(allow: Iterable[str | NetworkRule], rules: NetworkRules | None) -> NetworkRules:
    given = NetworkRules(allow=allow if isinstance(allow, str) else tuple(allow))  # pyright: ignore[reportArgumentType]
    if rules is not None:
        given = dataclasses.replace(rules, allow=(*rules.allow, *given.allow))
    if not given.allow:
        raise ValueError("`http_fetch` needs at least one destination, such as `api.example.com/v1/`")
    return given


def _check_numbers(rest: Mapping[str, Any]) -> None:
    check_seconds("timeout", rest["timeout"])
    check_count("max_response_bytes", rest["max_response_bytes"], least=1, most=256 * MIB)
    check_count("max_request_bytes", rest["max_request_bytes"], least=0, most=256 * MIB)
    check_count("max_url_length", rest["max_url_length"], least=16, most=32 * 1024)
    check_count("max_redirects", rest["max_redirects"], least=0, most=50)


def _check_choices(rest: Mapping[str, Any]) -> None:
    choices = {
        "redirects": ("same-origin", "allow-list", "never"),
        "response": ("text", "bytes", "json"),
        "overflow": ("truncate", "refuse"),
    }
    for name, allowed in choices.items():
        if rest[name] not in allowed:
            raise ValueError(f"`{name}` must be one of {', '.join(allowed)}, not {rest[name]!r}")


def _check_context(context: ssl.SSLContext | None) -> None:
    if context is not None and not (context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED):
        raise ValueError(
            "`ssl_context` must check certificates and names: nothing else proves who answers at an address"
        )


def _names(what: str, given: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys([given] if isinstance(given, str) else given))
    if not names or not set(names) <= set(known):
        raise ValueError(f"`{what}` must be some of {', '.join(known)}, not {', '.join(map(str, names)) or 'none'}")
    return names


def _headers(what: str, given: Iterable[str], never: Collection[str]) -> frozenset[str]:
    if isinstance(given, str):
        raise TypeError(f"`{what}` must be a list of names, not the text {given!r}")
    names = frozenset(name.lower() for name in given)
    for name in sorted(names):
        if not _HEADER.fullmatch(name) or name in never:
            raise ValueError(f"`{what}` may not hold {name!r}")
    return names


def _query(query: Literal["allow", "deny"] | Collection[str]) -> Literal["allow", "deny"] | tuple[str, ...]:
    if isinstance(query, str):
        if query == "allow" or query == "deny":
            return query
        raise ValueError(f"`query` must be `allow`, `deny`, or the names that a query may have, not {query!r}")
    return tuple(query)


def _check_origins(credentials: Credentials, rules: NetworkRules, schemes: tuple[str, ...]) -> None:
    """A credential that no request can use is a mistake in a name."""
    for origin in credentials.origins:
        url = Url.parse(origin)
        if url.scheme not in schemes or not any(_may_reach(rule, url) for rule in rules.allow):
            raise ValueError(f"`credentials` has {origin}, which no rule allows")


def _may_reach(rule: NetworkRule, url: Url) -> bool:
    method = rule.methods[0] if rule.methods else "GET"
    evaluator = Evaluator(NetworkRules(allow=(dataclasses.replace(rule, path="/"),), private=("0.0.0.0/0", "::/0")))
    return evaluator.evaluate(Destination(url.host, url.port, url.scheme, method, "/")).allowed
