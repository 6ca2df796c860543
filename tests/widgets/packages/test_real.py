"""Packages in widgets: real ones, from the registry of npm."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from gloveport import Widget
from gloveport.permissions import Packages

from .conftest import Render

CHART = """
import { Line, LineChart, XAxis, YAxis } from "recharts@2.15.4";
import { nanoid } from "nanoid";

const data = [{ month: "May", sales: 3 }, { month: "June", sales: 8 }];

export default function Sales() {
  return (
    <LineChart width={400} height={200} data={data} id={nanoid(4)}>
      <XAxis dataKey="month" />
      <YAxis />
      <Line dataKey="sales" isAnimationActive={false} />
    </LineChart>
  );
}
"""


@pytest.mark.registry
def test_a_real_chart(render: Render, tmp_path: Path, browser: Any):
    tmp_path.chmod(0o755)
    address = socket.gethostbyname("registry.npmjs.org")
    allowed = Packages(cache=str(tmp_path / "cache"), private=[address])
    shown = CHART.replace("import { nanoid }", "import { useEffect } from 'react';\nimport { nanoid }")
    shown = shown.replace(
        "  return (\n",
        "  useEffect(() => { console.warn('DRAWN ' + document.querySelectorAll('svg path.recharts-line-curve').length) });\n  return (\n",
    )
    widget = render(shown, allowed=allowed)
    assert isinstance(widget, Widget), widget
    assert any("DRAWN 1" in warning for warning in widget.warnings)
    assert widget.bytes < 1_200_000
    browser.open(widget.save(tmp_path / "chart.html").as_uri())
    browser.until("document.querySelector('svg path.recharts-line-curve')")
    assert browser.value("[...document.querySelectorAll('svg text')].map((text) => text.textContent).includes('June')")
