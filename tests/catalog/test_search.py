"""What a search finds, and that nothing but words is looked at."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport import EngineUnavailableError, ToolCatalog
from gloveport.tools import search
from gloveport.tools.search import Document, ToolIndex, query_terms, words

from .conftest import OFFICE, office_tool

INDEX = ToolIndex([Document(name, name, text, parameters) for name, (text, parameters) in OFFICE.items()])


def found(query, limit=10):
    return [key for key, _ in INDEX.search(query, limit)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("translation", "translate_text"),
        ("translating", "translate_text"),
        ("temperature in Paris", "get_weather"),
        ("e-mail", "send_email"),
        ("email", "send_email"),
        ("send an email to Ada about it", "send_email"),
        ("createInvoice", "createInvoice"),
        ("create_invoice", "createInvoice"),
        ("issue search", "searchIssues"),
        ("pull requests", "merge_pull_request"),
        ("deleting users", "delete_user"),
        ("subject", "send_email"),
        ("TRANSLATE", "translate_text"),
        ("trnslate", "translate_text"),
        ("invoces", "createInvoice"),
        ("weath", "get_weather"),
    ],
)
def test_the_right_tool_is_first(query, first):
    assert found(query)[0] == first


def test_stop_words_bring_no_junk():
    assert found("temperature in Paris") == ["get_weather"]
    assert found("what is the weather like in a city") == ["get_weather"]
    assert found("how do I do this for them") == []


def test_an_e_mail_is_not_every_word_with_an_e():
    assert found("e-mail") == ["send_email"]


def test_both_kinds_of_invoice_tools_are_found():
    assert sorted(found("invoices")) == ["createInvoice", "list-invoices"]


def test_names_weigh_more_than_descriptions_and_these_more_than_parameters():
    index = ToolIndex(
        [
            Document("c", "third", "x", ["report"]),
            Document("b", "second", "a report", []),
            Document("a", "report", "x", []),
        ]
        + [Document(f"n{i}", f"other{i}", "text", []) for i in range(9)]
    )
    hits = index.search("report", 10)
    assert [key for key, _ in hits] == ["a", "b", "c"]
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
    assert hits[0][1] == 1.0


def test_ties_are_in_order_of_the_names():
    same = [Document(f"tool_{i}", "same thing", "of one kind", []) for i in (5, 3, 9, 1)]
    assert [key for key, _ in ToolIndex(same).search("thing", 3)] == ["tool_1", "tool_3", "tool_5"]
    assert ToolIndex(reversed(same)).search("thing", 9) == ToolIndex(same).search("thing", 9)


def test_other_scripts_are_found():
    index = ToolIndex(
        [Document("a", "翻译文本", "", []), Document("b", "übersetzung", "", []), Document("c", "отчёты", "", [])]
    )
    assert [key for key, _ in index.search("翻译", 5)] == ["a"]
    assert [key for key, _ in index.search("ubersetzung", 5)] == ["b"]
    assert [key for key, _ in index.search("Отчёты", 5)] == ["c"]


SYNTAX = [
    *('"', '""', "*", "translate*", "name:translate", "translate AND invoice", "NEAR(translate text)", "{name}: x"),
    *("- + ^ ( )", "translate OR", "NOT translate", "'; DROP TABLE tools; --", "\x00translate\x00", "\ud800translate"),
    *("a" * 100_000, "translate " * 5000),
]


@pytest.mark.parametrize("query", SYNTAX, ids=range(len(SYNTAX)))
def test_a_query_is_words_and_no_syntax(query):
    asked = set(query_terms(query))
    hits = found(query)
    assert ("translate_text" in hits) == bool(asked & {"translate", "translation", "text"})
    assert ("createInvoice" in hits) == ("invoice" in asked)
    assert found("translation") == ["translate_text"]  # the index is as it was


@given(st.text(max_size=60))
def test_any_text_is_a_query(text):
    hits = INDEX.search(text, 5)
    assert len(hits) <= 5
    assert hits == INDEX.search(text, 5)
    assert all(key in OFFICE and 0 < score <= 1 for key, score in hits)


def test_words_of_names():
    assert words("getHTTPResponse_v2 list-issues") == ["get", "http", "response", "v2", "list", "issues", "listissues"]


def test_any_thread_may_search():
    index = ToolIndex([Document(f"t{i}", f"tool {'report' if i % 2 else 'thing'} {i}", "", []) for i in range(300)])
    wanted, seen, failures = ToolIndex(index._documents).search("report", 50), [], []

    def work():
        try:
            seen.extend(index.search("report", 50) for _ in range(20))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(seen) == 160
    assert all(hits == wanted for hits in seen)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_may_search_while_others_do():
    index = ToolIndex([Document(f"t{i}", f"report {i}", "a text to index", []) for i in range(500)])
    wanted = index.search("report", 5)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            index.search("report text", 50)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                parents = index._connection  # which must not be used here
                good = index.search("report", 5) == wanted and index._connection is not parents
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_without_fts5_a_catalog_is_refused(monkeypatch):
    class NoModule:
        def execute(self, _):
            raise sqlite3.OperationalError("no such module: fts5")

        def close(self):
            pass

    tools = [office_tool("a", "A", [])]
    assert ToolCatalog(tools).names == ("a",)
    monkeypatch.setattr(search.sqlite3, "connect", lambda *args, **kwargs: NoModule())
    with pytest.raises(EngineUnavailableError, match=r"FTS5.*no such module"):
        ToolCatalog(tools)


def test_a_long_word_is_read_once():
    """In a process of its own: nothing could stop the expression that took hours for it."""
    code = "from gloveport.tools.search import words\nprint(len(words('a' * 300_000 + ' -')), words('re-e-mail x-'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1 ['re', 'e', 'mail', 'x', 'reemail']\n"
