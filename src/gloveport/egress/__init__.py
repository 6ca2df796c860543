"""The way out: which destinations are allowed, and connections to exactly what was checked.

`evaluator` decides, `addresses` and `urls` give it one reading of what was asked, `lookup` resolves, `dialing` connects to the
addresses that passed. Nothing of these knows HTTP. `exchange` is one HTTP request as a machine without I/O, `fetch` the tool.
"""

from __future__ import annotations

from .addresses import address_kind
from .evaluator import Decision, Destination, Evaluator, Verdict, Vetted
from .urls import Url

__all__ = ("Decision", "Destination", "Evaluator", "Url", "Verdict", "Vetted", "address_kind")
