"""Spans: what is reported, and that nothing a guest chose is."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, telemetry


class FakeSpan:
    def __init__(self, name, attributes):
        self.name, self.attributes = name, dict(attributes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def set_attribute(self, key, value):
        self.attributes[key] = value


class FakeTracer:
    def __init__(self):
        self.spans = []

    def start_as_current_span(self, name, attributes):
        self.spans.append(FakeSpan(name, attributes))
        return self.spans[-1]


@pytest.fixture
def spans(monkeypatch):
    tracer = FakeTracer()
    monkeypatch.setattr(telemetry, "_tracer", tracer)
    monkeypatch.setattr(telemetry, "_looked", True)
    return tracer.spans


def test_runs_dumps_and_forks_are_spans_with_a_closed_set_of_attributes(spans):
    with AgentSandbox({"ask": lambda x: x}, isolation="inline") as session:
        session.execute("const e = new Error('guest text'); e.name = 'GuestName'; await ask('secret'); throw e")
        step = session.start("return await ask(1)")
        session.dump(b"k" * 16)
        session.fork().close()
        session.resume(step, 2)
    assert [span.name for span in spans] == [
        "gloveport.run",
        "gloveport.run",
        "gloveport.dump",
        "gloveport.fork",
        "gloveport.run",
    ]
    assert spans[0].attributes == {
        "gloveport.engine": "wasm",
        "gloveport.isolation": "inline",
        "gloveport.status": "Failed",
        "gloveport.error_code": "javascript",
        "gloveport.tool_calls": 1,
    }
    assert spans[1].attributes["gloveport.status"] == "Paused"
    for span in spans:
        assert span.attributes.keys() <= telemetry.ATTRIBUTES
        assert "guest" not in str(span.attributes).lower()


def test_without_a_tracer_nothing_is_reported(monkeypatch):
    monkeypatch.setattr(telemetry, "_tracer", None)
    monkeypatch.setattr(telemetry, "_looked", True)
    with telemetry.span("gloveport.run", engine="wasm") as current:
        assert current is None


def test_opentelemetry_is_used_when_it_is_there():
    pytest.importorskip("opentelemetry")
    telemetry._looked = False
    try:
        with telemetry.span("gloveport.run", engine="wasm") as current:
            assert current is not None
    finally:
        telemetry._looked = False
