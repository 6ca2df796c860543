"""What the command line shows of work that takes long."""

from __future__ import annotations

import io

from gloveport.cli.progress import Progress
from gloveport.host.machines.progress import reporting, say


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_one_line_that_changes_and_goes_away():
    screen = Terminal()
    progress = Progress(screen, patience=0)
    for number in (1, 50, 100):
        progress(f"unpacking {number} of 100")
    progress("configuring")
    progress.close()
    lines = screen.getvalue().split("\r\x1b[K")
    assert lines[2] == f"[{'#' * 12}{' ' * 12}] unpacking 50 of 100 (0 s)"
    assert lines[3].startswith(f"[{'#' * 24}]") and lines[4] == "configuring (0 s)" and lines[-1] == ""


def test_what_is_quick_shows_nothing_on_a_terminal():
    screen = Terminal()
    progress = Progress(screen)
    progress("reading")
    progress.close()
    assert screen.getvalue() == ""


def test_a_file_gets_a_line_for_each_stage():
    out = io.StringIO()
    progress = Progress(out)
    for text in ("reading", "unpacking 1 of 3", "unpacking 2 of 3", "unpacking 3 of 3", "configuring"):
        progress(text)
    progress.close()
    assert out.getvalue() == "reading\nunpacking\nconfiguring\n"


def test_whoever_asked_hears_it():
    heard, inner = [], []
    say("to nobody")
    with reporting(heard.append):
        say("one")
        with reporting(None):
            say("two")
        with reporting(inner.append):
            say("three")
    say("to nobody")
    assert (heard, inner) == (["one", "two"], ["three"])
