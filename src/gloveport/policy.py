"""What a session may use, as plain data that is checked once."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

__all__ = (
    "DEFAULT_TIMEOUT",
    "V8_MIN_MEMORY",
    "EngineName",
    "Isolation",
    "Limits",
    "NetworkRule",
    "NetworkRules",
    "SandboxMode",
    "check_count",
    "check_seconds",
    "host_name",
)

SandboxMode = Literal["require", "auto", "off"]
"""`require` refuses to start when a layer of the jail is missing, `auto` warns, `off` has no jail."""
Isolation = Literal["process", "shared", "inline"]
"""A worker process per session, one for a group of sessions, or the host's own process (trusted code only)."""
EngineName = Literal["wasm", "v8"]
"""QuickJS in WebAssembly, or V8 in a Deno process."""

MIB: Final = 1024 * 1024
DEFAULT_TIMEOUT: Final = 30.0
MIN_MEMORY: Final = 8 * MIB
"""The base image alone takes about 5 MiB."""
V8_MIN_MEMORY: Final = 32 * MIB
"""With less, little would be left beside what V8 needs for itself."""
MAX_MEMORY: Final = 3072 * MIB
"""A WebAssembly memory has 4 GiB; the rest is left for the host's arithmetic."""
MAX_INFLIGHT: Final = 63
"""Tool calls at the same time in one session, by default; the rest wait in the order they were made."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one session. Sizes are bytes, times seconds; `None` means no limit."""

    timeout: float = DEFAULT_TIMEOUT
    """Guest computing time per run; waiting for tools does not count."""
    max_pause: float = 600.0
    """Waiting time per run: for tools, and for whoever has to resume it."""
    tool_timeout: float | None = None
    """Time per tool call that the session runs itself."""
    max_memory: int = 256 * MIB
    """The guest's linear memory: heap, typed arrays, stacks and code."""
    max_output_bytes: int = 64 * 1024
    """stdout and stderr of a run, each."""
    max_result_bytes: int = 1 * MIB
    """The value of a run as compact JSON."""
    max_journal_bytes: int = 8 * MIB
    """A dump, and the journal that is kept beside the heap; with `engine="v8"` the history, which is all that is kept."""
    max_tool_calls: int | None = None
    """Tool calls over the session's life."""
    tool_budgets: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Calls over the session's life of single tools, by name."""
    run_budgets: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Calls in one run of single tools, by name."""
    max_host_calls: int | None = None
    """Tool calls in one run."""
    max_inflight: int = MAX_INFLIGHT
    """Tool calls at the same time."""

    def __post_init__(self) -> None:
        for name in ("timeout", "max_pause", "tool_timeout"):
            check_seconds(name, getattr(self, name), optional=name == "tool_timeout")
        for name in ("max_output_bytes", "max_result_bytes", "max_journal_bytes"):
            check_count(name, getattr(self, name), least=16)
        check_count("max_memory", self.max_memory, least=MIN_MEMORY, most=MAX_MEMORY)
        check_count("max_inflight_host_calls", self.max_inflight, least=1, most=1024)
        for name in ("max_tool_calls", "max_host_calls"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=0)
        for option in ("tool_budgets", "run_budgets"):
            for tool, limit in getattr(self, option).items():
                check_count(f"{option}[{tool!r}]", limit, least=0)


def check_seconds(name: str, value: float | None, *, optional: bool = False) -> None:
    """Raises `TypeError` or `ValueError` for what is no positive, finite number of seconds."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"`{name}` must be a positive, finite number of seconds, not {value!r}")


def check_count(name: str, value: int, *, least: int, most: int | None = None) -> None:
    """Raises `TypeError` or `ValueError` for what is no whole number within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`{name}` must be an integer, not {value!r}")
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"`{name}` must be {bounds}, not {value!r}")


# ── the network ──────────────────────────────────────────────────────────────────────────────────────────────────────

_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_TOKEN: Final = re.compile(r"[A-Z]+(?:-[A-Z]+)*")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_RULE_TEXT: Final = re.compile(
    r"(?:(?P<methods>[A-Z,-]+) )?(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]@?#\\]+)(?::(?P<port>[0-9]{1,5}|\*))?(?P<path>/[!-~]*)?"
)


def host_name(text: str) -> str:
    """The one spelling of a host: a lower-case name without a dot at its end, or an address (IPv6 without brackets).

    Raises `ValueError` for what different programs read as different hosts: names outside ASCII (write the `xn--` form), numbers
    that are not an IPv4 address in four decimal parts (`127.1`, `0x7f.1`, `2130706433`, `0177.0.0.1`: the "ends in a number" rule
    of the WHATWG URL standard, without its conversions), IPv6 zones, percent-encoding, and what is empty or longer than 253.
    """
    if not text.isascii():
        raise ValueError("a host outside ASCII has several readings: write its `xn--` form")
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            raise ValueError("brackets hold an IPv6 address only")
    if ":" in text:
        if "%" in text:
            raise ValueError("an IPv6 address with a zone means nothing outside of this machine")
        return ipaddress.IPv6Address(text).compressed
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if not 0 < len(name) <= 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("that is no host name")
    if _NUMERIC.fullmatch(labels[-1]):
        if text.endswith("."):
            raise ValueError("an address has no dot at its end")
        return str(ipaddress.IPv4Address(name))  # refuses fewer than four parts, hexadecimal and leading zeros
    return name


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkRule:
    """Destinations on the network. As a text: `[METHOD[,METHOD] ][scheme://]host[:port][/path]`, or `cidr:network[:port]`.

    `"api.example.com/v1/"`, `"POST api.example.com/v1/orders"`, `"*.example.com"`, `"http://127.0.0.1:8000"`,
    `"cidr:203.0.113.0/24"`. Raises `ValueError` for what it cannot mean exactly one thing by.
    """

    host: str = ""
    """A name, `*.name` (its subdomains at any depth, not the name itself), `*` (every host), or an address."""
    cidr: str = ""
    """Instead of a host: addresses. An allowing rule means requests *to an address* in it; a denying one also what a name resolves to."""
    ports: tuple[int, ...] | None = ()
    """`()`: an allowing rule means the scheme's own port, a denying one any. `None`: any."""
    scheme: str | None = None
    """`None`: any that whoever asks has."""
    methods: tuple[str, ...] = ()
    """`()`: an allowing rule means the methods that whoever asks has by default (`GET`, never one with a body), a denying one any."""
    path: str = "/"
    """The path and what is below it: `/v1` is `/v1` and `/v1/x`, not `/v10`; `/v1/` is only what begins with it."""

    def __post_init__(self) -> None:
        if bool(self.host) == bool(self.cidr):
            raise ValueError("a network rule needs either a `host` or a `cidr`")
        if self.cidr:
            object.__setattr__(self, "cidr", str(ipaddress.ip_network(self.cidr)))
        elif self.host != "*":
            star = "*." if self.host.startswith("*.") else ""
            name = host_name(self.host.removeprefix(star))
            if star and (":" in name or _NUMERIC.fullmatch(name.rpartition(".")[2])):
                raise ValueError("an address has no subdomains: write a `cidr`")
            object.__setattr__(self, "host", star + name)
        for port in self.ports or ():
            check_count("ports", port, least=1, most=65535)
        for method in self.methods:
            if not _TOKEN.fullmatch(method):
                raise ValueError(f"an HTTP method in a network rule is upper-case, not {method!r}")
        if self.scheme is not None and not _SCHEME.fullmatch(self.scheme):
            raise ValueError(f"a scheme in a network rule is lower-case and without `://`, not {self.scheme!r}")
        _check_path(self.path)

    @classmethod
    def parse(cls, text: str) -> NetworkRule:
        """The rule that a text says. Raises `ValueError`, with the text and what is wrong with it."""
        try:
            return cls._parsed(text)
        except ValueError as error:
            raise ValueError(f"the network rule {text!r} cannot be read: {error}") from None

    @classmethod
    def _parsed(cls, text: str) -> NetworkRule:
        if text.startswith("cidr:"):
            network, _, port = text[5:].partition("/")
            length, colon, port = port.partition(":")
            return cls(cidr=f"{network}/{length}", ports=_ports(port if colon else None))
        match = _RULE_TEXT.fullmatch(text)
        if match is None:
            raise ValueError("write `[METHOD ][scheme://]host[:port][/path]`")
        path = match["path"] or "/"
        if re.fullmatch(r"[0-9.]+|\[.*\]", match["host"]) and re.fullmatch(r"/[0-9]+", path):
            raise ValueError(f"for addresses write `cidr:…`, for a path `{path}/`")
        return cls(
            host=match["host"],
            ports=_ports(match["port"]),
            scheme=match["scheme"],
            methods=tuple(match["methods"].split(",")) if match["methods"] else (),
            path=path,
        )

    def __str__(self) -> str:
        methods = f"{','.join(self.methods)} " if self.methods else ""
        scheme = f"{self.scheme}://" if self.scheme else ""
        host = f"cidr:{self.cidr}" if self.cidr else f"[{self.host}]" if ":" in self.host else self.host
        port = ":*" if self.ports is None else "".join(f":{port}" for port in self.ports)
        return f"{methods}{scheme}{host}{port}{'' if self.path == '/' else self.path}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkRules:
    """What may be reached. Nothing that no rule allows; a denying rule wins over every allowing one.

    Rules may be given as texts (`NetworkRule`). Addresses that are not public (loopback, private, link-local and so on) are refused
    whatever the rules say, unless they are named: as the host of an allowing rule (`"127.0.0.1:8000"`), for requests to that
    address; or in `private`, for the names that resolve to them.
    """

    allow: tuple[NetworkRule, ...] = ()
    deny: tuple[NetworkRule, ...] = ()
    private: tuple[str, ...] = ()
    """Networks and addresses that are not public, and that allowed destinations may have: `"10.1.0.0/16"`, `"127.0.0.1"`."""

    def __post_init__(self) -> None:
        for name in ("allow", "deny"):
            object.__setattr__(self, name, _rules(name, getattr(self, name)))
        networks = (self.private,) if isinstance(self.private, str) else self.private
        object.__setattr__(self, "private", tuple(str(ipaddress.ip_network(network)) for network in networks))


def _rules(name: str, given: Iterable[NetworkRule | str] | str) -> tuple[NetworkRule, ...]:
    if isinstance(given, str):
        raise TypeError(f"`{name}` must be a list of rules, not the text {given!r}")
    rules = [NetworkRule.parse(rule) if isinstance(rule, str) else rule for rule in given]
    for rule in rules:
        if not isinstance(rule, NetworkRule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`{name}` holds texts and `NetworkRule`s, not {rule!r}")
    return tuple(rules)


def _ports(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return ()
    return None if text == "*" else (int(text),)


def _check_path(path: str) -> None:
    if not re.fullmatch(r"/[!-~]*", path) or re.search(r"[?#\\%]|//|/\.\.?(?:/|;|$)", path):
        raise ValueError(
            f"the path {path!r} of a network rule must be absolute and plain: no `%`, `?`, `#`, `//` or dot segments"
        )
