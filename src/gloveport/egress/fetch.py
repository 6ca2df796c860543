"""`http_fetch`: the network as a tool."""

from __future__ import annotations

import functools
import json
import re
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, NotRequired, Protocol, TypedDict, cast

from ..errors import ToolArgumentError
from ..policy import MIB, NetworkRule, NetworkRules
from .credentials import FieldPairs, check_fields
from .drive import drive, drive_async
from .evaluator import Decision
from .exchange import Answer, Request, Steps, fetch_steps
from .lookup import Lookups, Resolver, system_resolver
from .options import (
    BODY_METHODS,
    RESPONSE_HEADERS,
    FetchOptions,
    Overflow,
    Redirects,
    ResponseKind,
    checked_options,
)
from .urls import Url, denied

__all__ = ("BytesResponse", "HttpFetch", "JsonResponse", "TextResponse", "http_fetch")

_MAX_FIELDS: Final = 32
_MAX_FIELD_BYTES: Final = 8 * 1024
_SHOWN_RULES: Final = 12
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_CODECS: Final = frozenset(
    {
        *(
            "utf-8",
            "utf8",
            "us-ascii",
            "ascii",
            "iso-8859-1",
            "latin1",
            "iso-8859-2",
            "iso-8859-15",
            "utf-16",
            "utf-16le",
        ),
        *(
            "utf-16be",
            "windows-1250",
            "windows-1251",
            "windows-1252",
            "koi8-r",
            "shift_jis",
            "euc-jp",
            "euc-kr",
            "gb2312",
        ),
        *("gbk", "gb18030", "big5"),
    }
)
"""Python has codecs that are no character sets, and slow ones."""


class TextResponse(TypedDict):
    """An answer. Error statuses are answers too."""

    status: int
    ok: bool
    url: str
    headers: dict[str, str]
    body: str
    truncated: bool


class BytesResponse(TypedDict):
    """An answer. Error statuses are answers too."""

    status: int
    ok: bool
    url: str
    headers: dict[str, str]
    body: bytes
    truncated: bool


class JsonResponse(TypedDict):
    """An answer with its body parsed as JSON (the text itself if it is none). Error statuses are answers too."""

    status: int
    ok: bool
    url: str
    headers: dict[str, str]
    body: Any
    truncated: bool


class HttpFetch(Protocol):
    """A tool that fetches; a plain function with two attributes."""

    __name__: str

    def __call__(self, url: str, init: Any = None, /) -> dict[str, Any]:
        """Fetch. Raises `EgressDeniedError`, `HttpFetchError`, `HttpFetchTimeout`, `ToolArgumentError`."""
        ...

    @property
    def aio(self) -> Callable[..., Awaitable[dict[str, Any]]]:
        """The same tool for asyncio. Both work in both session classes; this one is cancelled with its run."""
        ...

    def decisions(self) -> tuple[Decision, ...]:
        """The last decisions, oldest first: destination, verdict, rule."""
        ...


def http_fetch(
    allow: Iterable[str | NetworkRule] = (),
    *,
    schemes: Iterable[str] = ("https",),
    methods: Iterable[str] = ("GET",),
    headers: Mapping[str, str] | None = None,
    credentials: Mapping[str, Mapping[str, str] | str] | None = None,
    timeout: float = 10.0,
    max_response_bytes: int = 1 * MIB,
    max_request_bytes: int = 64 * 1024,
    max_url_length: int = 2048,
    max_redirects: int = 5,
    redirects: Redirects = "same-origin",
    response: ResponseKind = "text",
    overflow: Overflow = "truncate",
    query: Literal["allow", "deny"] | Collection[str] = "allow",
    request_headers: Iterable[str] | None = None,
    response_headers: Iterable[str] = RESPONSE_HEADERS,
    resolver: Resolver | None = None,
    ssl_context: ssl.SSLContext | None = None,
    rules: NetworkRules | None = None,
) -> HttpFetch:
    """A tool that fetches allowed URLs, and nothing else: `AgentSandbox({"fetch_url": http_fetch(["api.example.com/v1/"])})`.

    The guest calls `fetch_url(url)` and gets `{status, ok, url, headers, body, truncated}`. If a rule allows more than `GET`, or
    `request_headers` are given, it may add `{method, headers, body}`.

    Args:
        allow: destinations, as `NetworkRule` reads them: `"api.example.com/v1/"`, `"*.example.com"`, `"POST api.example.com/orders"`.
        schemes: `https`, and `http` if you say so.
        methods: those of rules that name none.
        headers: sent with every request, unless a redirect led to another origin. The guest cannot read or replace them.
        credentials: header fields (a text: `Authorization`) by host, `host:port` or origin. Sent to that origin only, never after a
            redirect to another; the guest cannot set these headers, and an answer that repeats one is withheld.
        timeout: seconds for all of it: name, connection, TLS, redirects, body.
        max_response_bytes: of the body; no more is read.
        max_request_bytes: of the guest's body.
        max_url_length: characters, encoded.
        max_redirects: after which it fails.
        redirects: `same-origin` refuses others, `allow-list` follows where the rules allow it, `never` gives the 3xx answer.
        response: `text` (by the answer's charset, else UTF-8), `bytes` (a `Uint8Array`), or `json`.
        overflow: of a larger body `truncate` gives the beginning with `truncated` set; `refuse` throws.
        query: `deny` allows no query in a URL, names only those parameters. A query is how a guest sends data with a `GET`.
        request_headers: names that the guest may set; `None` is `content-type` where a method has a body.
        response_headers: names that the guest sees.
        resolver: `resolver(host, port)` gives addresses, in a thread of its own. They are checked like those of the system.
        ssl_context: for `https`; must check certificates and names. `None` trusts what the system trusts.
        rules: more rules: `deny`, and which `private` addresses are open. Its `allow` comes before `allow`.

    Raises `ValueError` and `TypeError` that say what is wrong. The environment's proxies are not used, and cookies not kept.
    """
    options = checked_options(
        allow=allow,
        rules=rules,
        schemes=schemes,
        methods=methods,
        headers=headers,
        credentials=credentials,
        timeout=timeout,
        max_response_bytes=max_response_bytes,
        max_request_bytes=max_request_bytes,
        max_url_length=max_url_length,
        max_redirects=max_redirects,
        redirects=redirects,
        response=response,
        overflow=overflow,
        query=query,
        request_headers=request_headers,
        response_headers=response_headers,
        ssl_context=ssl_context,
    )
    return _tool(_Fetcher(options, Lookups(resolver or system_resolver)))


class _Fetcher:
    """The request of a call, and what is made of the answer."""

    def __init__(self, options: FetchOptions, lookups: Lookups) -> None:
        self.options = options
        self._lookups = lookups

    @functools.cached_property
    def _context(self) -> ssl.SSLContext:
        if self.options.ssl_context is not None:
            return self.options.ssl_context
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def blocking(self, url: str, init: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._result(drive(self._steps(url, init), self._lookups, lambda: self._context, self.options.timeout))

    async def awaited(self, url: str, init: Mapping[str, Any] | None) -> dict[str, Any]:
        steps = self._steps(url, init)
        return self._result(await drive_async(steps, self._lookups, lambda: self._context, self.options.timeout))

    def _steps(self, url: str, init: Mapping[str, Any] | None) -> Steps[Answer]:
        options = self.options
        if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _argument("the URL must be a string")
        method, fields, body = _init(options, {} if init is None else init)
        parsed = Url.parse(url, schemes=options.schemes, max_length=options.max_url_length)
        return fetch_steps(options, Request(method, parsed, fields, body))

    def _result(self, answer: Answer) -> dict[str, Any]:
        options = self.options
        headers: dict[str, str] = {}
        for name, value in answer.fields:
            if name in options.response_headers:
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        for value in headers.values():
            options.credentials.check(value.encode())
        return {
            "status": answer.status,
            "ok": 200 <= answer.status < 300,
            "url": str(answer.url),
            "headers": headers,
            "body": self._body(answer),
            "truncated": answer.truncated,
        }

    def _body(self, answer: Answer) -> Any:
        if self.options.response == "bytes":
            return answer.body
        kind = next((value for name, value in answer.fields if name == "content-type"), "")
        match = _CHARSET.search(kind)
        charset = match[1].lower() if match and match[1].lower() in _CODECS else "utf-8"
        text = answer.body.decode(charset, "replace")
        self.options.credentials.check(text.encode("utf-8", "replace"))
        if self.options.response == "text":
            return text.removeprefix("\ufeff")
        try:
            value = json.loads(text.removeprefix("\ufeff"), parse_constant=_no_number)
        except (ValueError, RecursionError):
            return text
        if self.options.credentials.longest:  # escapes of JSON can spell anything
            self.options.credentials.check(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        return value


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _init(options: FetchOptions, init: Mapping[str, Any]) -> tuple[str, FieldPairs, bytes | None]:
    """Method, header fields and body as the guest gave them, checked."""
    if not isinstance(init, Mapping) or not set(init) <= {"method", "headers", "body"}:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _argument("the second argument must be `{method?, headers?, body?}`")
    method = init.get("method") or ("GET" if "GET" in options.methods else options.methods[0])
    if not isinstance(method, str) or method.upper() not in options.methods:
        raise denied(f"the method must be {' or '.join(options.methods)}")
    method = method.upper()
    body = init.get("body")
    if isinstance(body, str):
        try:
            body = body.encode()
        except UnicodeEncodeError:
            raise _argument("the body has half of a surrogate pair: send it as bytes") from None
    if body is not None and not isinstance(body, (bytes, bytearray)):
        raise _argument("the body must be a string (`JSON.stringify` an object) or a Uint8Array")
    if body is not None and method not in BODY_METHODS:
        raise _argument(f"a request with {method} has no body")
    if body is not None and len(body) > options.max_request_bytes:
        raise denied(f"the body is larger than {options.max_request_bytes} bytes")
    if body is None and method in BODY_METHODS and method != "DELETE":
        body = b""
    headers = init.get("headers")
    return method, _guest_fields(options, {} if headers is None else headers), None if body is None else bytes(body)


def _guest_fields(options: FetchOptions, given: Any) -> FieldPairs:
    if not isinstance(given, Mapping):
        raise _argument("`headers` must be an object of names and strings")
    fields = cast("Mapping[str, str]", given)
    if len(fields) > _MAX_FIELDS or sum(len(str(name)) + len(str(fields[name])) for name in fields) > _MAX_FIELD_BYTES:
        raise _argument(f"at most {_MAX_FIELDS} headers of together {_MAX_FIELD_BYTES} characters")
    for name in fields:
        if str(name).lower() not in options.request_headers:
            raise denied(f"the headers that may be set are: {', '.join(sorted(options.request_headers)) or 'none'}")
    try:
        return check_fields("headers", fields)
    except (TypeError, ValueError) as error:
        raise _argument(str(error)) from None


def _argument(text: str) -> ToolArgumentError:
    error = ToolArgumentError(text)
    error.shown = True  # written here, for the model
    return error


# ── the tool as a function ───────────────────────────────────────────────────────────────────────────────────────────


def _tool(fetcher: _Fetcher) -> HttpFetch:
    """Functions whose signature and documentation say what this configuration allows: both go to the model."""
    options = fetcher.options
    result = {"text": TextResponse, "bytes": BytesResponse, "json": JsonResponse}[options.response]
    blocking: Any
    awaited: Any
    if set(options.methods) == {"GET"} and not options.request_headers:

        def fetch(url: str) -> Any:
            return fetcher.blocking(url, None)

        async def fetch_async(url: str) -> Any:
            return await fetcher.awaited(url, None)

        blocking, awaited, hints = fetch, fetch_async, {"url": str}
    else:

        def fetch_with(url: str, init: Any = None) -> Any:
            return fetcher.blocking(url, init)

        async def fetch_with_async(url: str, init: Any = None) -> Any:
            return await fetcher.awaited(url, init)

        blocking, awaited, hints = fetch_with, fetch_with_async, {"url": str, "init": _init_type(options)}
    for function in (blocking, awaited):
        function.__name__ = function.__qualname__ = "http_fetch"
        function.__doc__ = _documentation(options)
        function.__annotations__ = {**hints, "return": result}
        function.decisions = lambda: options.evaluator.decisions
    blocking.aio = awaited
    return cast("HttpFetch", blocking)


def _init_type(options: FetchOptions) -> Any:
    """The second argument's type, with the methods that there are."""
    fields: dict[str, Any] = {"method": NotRequired[Literal[options.methods]]}
    if options.request_headers:
        fields["headers"] = NotRequired[dict[str, str]]
    if set(options.methods) & set(BODY_METHODS):
        fields["body"] = NotRequired[str | bytes]
    return TypedDict("FetchInit", fields)  # pyright: ignore[reportGeneralTypeIssues,reportArgumentType]


def _documentation(options: FetchOptions) -> str:
    rules = [str(rule) for rule in options.evaluator.rules.allow]
    more = f" and {len(rules) - _SHOWN_RULES} more" if len(rules) > _SHOWN_RULES else ""
    kept = f"The first {options.max_response_bytes} bytes of a larger body are given, with `truncated` set."
    if options.overflow == "refuse":
        kept = f"A body of more than {options.max_response_bytes} bytes throws."
    lines = [
        f"Fetch a URL ({', '.join(options.methods)}; {', '.join(options.schemes)}). Allowed: {', '.join(rules[:_SHOWN_RULES])}{more}.",
        "Error statuses are returned, not thrown. What is refused throws EgressDeniedError: do not try it another way.",
        f"{kept} At most {options.timeout:g} s.",
    ]
    if options.query == "deny":
        lines.append("URLs may not have a query.")
    elif options.query != "allow":
        lines.append(f"Query parameters: {', '.join(options.query)}.")
    if options.request_headers:
        lines.append(f"Headers that may be set: {', '.join(sorted(options.request_headers))}.")
    return "\n".join(lines)
