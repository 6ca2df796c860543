"""Full-text search over tools: SQLite's FTS5, in memory.

Both sides of a search, tools and queries, go through `words`, so that `translate_text`, `translateText` and "translate text"
are the same. FTS5 stems (Porter), so that "translation" finds `translate` and "invoices" finds `invoice`, and ranks (BM25).
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import sqlite3
import threading
import unicodedata
import weakref
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple

from ..errors import EngineUnavailableError

__all__ = ("Document", "ToolIndex", "check_fts5", "words")

_MAX_QUERY: Final = 2000
"""Characters of a query that are looked at."""
_MAX_TERMS: Final = 32
_MAX_GUESSES: Final = 8
"""Terms of a query for which similar words are looked up."""
_SIMILAR: Final = 0.75
"""`difflib` ratio of a word and what it may be a misspelling of: "trnslate" and "translate" have 0.94, "mail" and "main" 0.75."""
_WEIGHTS: Final = "10.0, 3.0, 1.0"
"""Of names, descriptions and parameter names."""

_STOP_WORDS: Final = """
    a about all am an and any are as at be been being but by can could did do does doing for from had has have having help her
    here him his how i if in into is it its just let like may me might my need of on or our out over please should so some than
    that the their them then there these they this those to too tool tools up us use using want was way we were what when where
    which while who whom why will with would you your
"""
_STOP: Final = frozenset(_STOP_WORDS.split())
"""Words of a request that say nothing about a tool."""

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_COMPOUND: Final = re.compile(r"(?<![^\W_])[^\W_]+(?:[-\u2010\u2011][^\W_]+)+")
"""Only from where a word begins: to try each letter of a long one takes hours."""
_IDEOGRAPH: Final = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff])")
_WORD: Final = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words of a name or a text, in lower case, in order.

    Names are split at underscores and at capitals; "e-mail" is `e`, `mail` and `email`; ideographs are words of their own.
    """
    if not text.isascii():
        text = _IDEOGRAPH.sub(r" \1 ", unicodedata.normalize("NFKC", text))
    found = _WORD.findall(_CAMEL.sub(" ", text))
    if "-" in text or "\u2010" in text or "\u2011" in text:
        found += [re.sub(r"[\W_]", "", compound) for compound in _COMPOUND.findall(text)]
    return [word.casefold() for word in found]


class Document(NamedTuple):
    """What is searched of a tool."""

    key: str
    name: str
    description: str
    parameters: Iterable[str]


# SQLite must not be in use by another thread while the process forks: the child would inherit its locks as they are. A
# connection must not be used in a child either, not even to close it.
_sqlite: Final = threading.Lock()
_of_parents: Final[list[Any]] = []
os.register_at_fork(before=_sqlite.acquire, after_in_parent=_sqlite.release, after_in_child=_sqlite.release)


def check_fts5() -> None:
    """Raise `EngineUnavailableError` unless this interpreter's SQLite has FTS5."""
    with _sqlite, contextlib.closing(_connect()):
        pass


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        connection.execute(
            "CREATE VIRTUAL TABLE tools USING fts5(name, description, parameters, key UNINDEXED, "
            "tokenize = 'porter unicode61 remove_diacritics 2')"
        )
    except sqlite3.OperationalError as error:
        connection.close()
        raise EngineUnavailableError(
            f"a tool catalog is searched with SQLite's FTS5, which the SQLite {sqlite3.sqlite_version} of this Python lacks "
            f"({error}): use a Python whose SQLite has it, as those of python.org, Debian and uv have"
        ) from error
    return connection


class ToolIndex:
    """Finds tools by words. Built by the first search; any thread may use it, and so may a forked child."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = list(documents)
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._vocabulary: list[str] = []

    def search(self, query: str, limit: int) -> list[tuple[str, float]]:
        """Keys and scores, best first; the best has 1. Ties are in order of the names.

        Every word counts by itself. If no tool has any of them, those count that begin like them, and then those that are spelled
        alike.
        """
        terms = query_terms(query)
        if not terms:
            return []
        with self._open() as connection:
            rows = _match(connection, [f'"{term}"' for term in terms], limit)
            rows = rows or _match(connection, [f'"{term}" *' for term in terms if len(term) > 2], limit)
            return rows or _match(connection, [f'"{word}"' for word in self._alike(terms)], limit)

    def _alike(self, terms: Sequence[str]) -> list[str]:
        if not self._vocabulary:
            names = (word for document in self._documents for word in words(document.name))
            self._vocabulary = sorted({word for word in names if len(word) > 2})
        found: dict[str, None] = {}
        for term in terms[:_MAX_GUESSES]:
            if 2 < len(term) <= 40:
                found.update(dict.fromkeys(difflib.get_close_matches(term, self._vocabulary, 3, _SIMILAR)))
        return list(found)

    @contextlib.contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        with _sqlite:
            if self._connection is None or self._pid != os.getpid():
                self._connection, self._pid = self._built(), os.getpid()
                weakref.finalize(self, _close, self._connection, self._pid)
            yield self._connection

    def _built(self) -> sqlite3.Connection:
        connection = _connect()
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO tools (name, description, parameters, key) VALUES (?, ?, ?, ?)",
            (
                (
                    " ".join(words(document.name)),
                    " ".join(words(document.description)),
                    " ".join(word for parameter in document.parameters for word in words(parameter)),
                    document.key,
                )
                for document in self._documents
            ),
        )
        connection.execute("COMMIT")
        return connection


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if pid == os.getpid():
        connection.close()
    else:
        _of_parents.append(connection)


def query_terms(query: str) -> list[str]:
    """The words of a query that are looked for: no stop words, each once."""
    found = dict.fromkeys(words(query[:_MAX_QUERY]))
    return [word for word in found if word not in _STOP and (len(word) > 1 or not word.isascii())][:_MAX_TERMS]


def _match(connection: sqlite3.Connection, phrases: Sequence[str], limit: int) -> list[tuple[str, float]]:
    """`phrases` are quoted, and hold nothing but letters and digits between the quotes: nothing of FTS5's own syntax."""
    if not phrases:
        return []
    rows: list[tuple[str, float]] = connection.execute(
        f"SELECT key, bm25(tools, {_WEIGHTS}) AS cost FROM tools WHERE tools MATCH ? ORDER BY cost, key LIMIT ?",  # noqa: S608
        (" OR ".join(phrases), limit),
    ).fetchall()
    best = rows[0][1] if rows else 0.0
    return [(key, round(cost / best, 2) if best else 1.0) for key, cost in rows]
