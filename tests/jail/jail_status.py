"""Prints the report on the jail."""

from __future__ import annotations

import json

from gloveport.engines.jail.report import status

print(json.dumps([r._asdict() for r in status()]))
