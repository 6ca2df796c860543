"""Spans and metrics: what is reported, to whom, and that nothing a guest chose is."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gloveport import AgentSandbox, AsyncAgentSandbox, telemetry

KEY = b"k" * 16


class Collected:
    """What a collector would see."""

    def __init__(self):
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider(metric_readers=[self._reader])

    @property
    def spans(self):
        return self._exporter.get_finished_spans()

    @property
    def points(self):
        data = self._reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = list(metric.data.data_points)
        return found


@pytest.fixture
def collected(monkeypatch):
    """Providers of this test alone: those of a process can be set once only."""
    collected = Collected()
    monkeypatch.setattr(trace, "get_tracer", collected.tracers.get_tracer)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: collected.tracers)
    monkeypatch.setattr(metrics, "get_meter", collected.meters.get_meter)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: collected.meters)
    monkeypatch.setattr(telemetry, "_looked", False)
    monkeypatch.setattr(telemetry, "_reporter", None)
    return collected


LATER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from gloveport import AgentSandbox
with AgentSandbox({}, isolation="inline") as session:
    session.run("return 1")
    exporter = InMemorySpanExporter()
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
    session.run("return 1")
    print([span.name for span in exporter.get_finished_spans()])
"""


def test_a_provider_that_is_set_after_the_first_run_is_heard():
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True)
    assert done.stdout == "['gloveport.run']\n"


def name_of(span):
    return span.name.removeprefix("gloveport.")


def test_every_operation_is_a_span_with_a_closed_set_of_attributes(collected, either):
    tools = {"ask": lambda x: x}
    with AgentSandbox(tools, **either) as session:
        session.execute("const e = new Error('guest text'); e.name = 'GuestName'; await ask('secret'); throw e")
        step = session.start("return await ask(1)")
        blob = session.dump(KEY)
        session.fork().close()
        session.resume(step, 2)
    AgentSandbox.load(blob, KEY, tools, **either).close()
    spans = collected.spans
    assert list(map(name_of, spans)) == ["call", "run", "run", "dump", "fork", "load", "run", "load"]
    assert dict(spans[0].attributes) == {"gloveport.tool": "ask", "gloveport.ok": True}
    assert dict(spans[1].attributes) == {
        "gloveport.engine": either["engine"],
        "gloveport.isolation": either["isolation"],
        "gloveport.status": "Failed",
        "gloveport.error_code": "javascript",
        "gloveport.tool_calls": 1,
    }
    assert spans[2].attributes["gloveport.status"] == "Paused"
    assert spans[3].attributes["gloveport.blob_bytes"] == len(blob)
    for span in spans:
        assert span.attributes.keys() <= telemetry.ATTRIBUTES
        assert "guest" not in str(dict(span.attributes)).lower()


def test_metrics_count_runs_calls_and_bytes(collected, either):
    with AgentSandbox({"ask": lambda x: x}, **either) as session:
        session.run("await ask(1); await ask(2)")
        session.run("return 1")
        session.execute("throw 1")
        size = len(session.dump(KEY))
    points = collected.points
    by_status = {point.attributes["gloveport.status"]: point.count for point in points["gloveport.run.duration"]}
    assert by_status == {"Succeeded": 2, "Failed": 1}
    assert [point.value for point in points["gloveport.run.tool_calls"]] == [2]
    assert [point.sum for point in points["gloveport.blob.size"]] == [size]


def outer_and_inner(collected):
    tracer = collected.tracers.get_tracer("app")

    def tool(label):
        with tracer.start_as_current_span(f"inside {label}"):
            return label

    async def async_tool(label):
        return tool(label)

    return tool, async_tool


def check_family(collected, labels):
    spans = {span.name: span for span in collected.spans}
    run = spans["gloveport.run"]
    calls = {span.context.span_id for span in collected.spans if span.name == "gloveport.call"}
    assert len(calls) == len(labels)
    for label in labels:
        assert spans[f"inside {label}"].parent.span_id in calls
    assert {span.parent.span_id for span in collected.spans if span.name == "gloveport.call"} == {run.context.span_id}


CODE = "await t('a'); await Promise.all([t('b'), t('c')]); await t('d')"


@pytest.mark.parametrize("kind", [0, 1])
def test_what_a_tool_does_is_below_its_call_and_that_below_the_run(collected, kind, either):
    with AgentSandbox({"t": outer_and_inner(collected)[kind]}, **either) as session:
        session.run(CODE)
    check_family(collected, "abcd")


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [0, 1])
async def test_the_same_on_asyncio(collected, kind, either):
    async with AsyncAgentSandbox({"t": outer_and_inner(collected)[kind]}, **either) as session:
        await session.run(CODE)
    assert trace.get_current_span() is trace.INVALID_SPAN
    check_family(collected, "abcd")


def test_a_call_that_fails_or_is_left_behind_says_so(collected, either):
    import threading

    release = threading.Event()

    def t(fails):
        if fails:
            raise ValueError("x")
        release.wait(10)

    with AgentSandbox({"t": t}, **either, tool_timeout=0.1) as session:
        session.execute("await t(true).catch(() => 0); await t(false)")
        release.set()
    calls = [span for span in collected.spans if span.name == "gloveport.call"]
    assert [span.attributes["gloveport.ok"] for span in calls] == [False, False]


def test_without_opentelemetry_nothing_is_reported(monkeypatch):
    monkeypatch.setattr(telemetry, "_reporter", None)
    monkeypatch.setattr(telemetry, "_looked", True)
    with telemetry.span("gloveport.run", engine="wasm", isolation="inline") as current:
        assert current is None
    with AgentSandbox({"t": lambda: 1}, isolation="inline") as session:
        assert session.run("return await t()") == 1
