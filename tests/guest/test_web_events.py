"""Events, aborting and timers (https://dom.spec.whatwg.org/), on the guest's own clock."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox


@pytest.fixture
def session():
    with AgentSandbox({}, isolation="inline") as session:
        yield session


def test_listeners_are_called_in_order_once_and_not_when_removed(session):
    code = """
    const t = new EventTarget(), out = [], gone = () => out.push('gone');
    t.addEventListener('x', () => out.push('bubble'));
    t.addEventListener('x', () => out.push('once'), {once: true});
    t.addEventListener('x', () => out.push('capture'), true);
    t.addEventListener('x', {handleEvent(e) { out.push(e.type + (this.handleEvent !== undefined)) }});
    t.addEventListener('x', gone); t.addEventListener('x', gone); t.removeEventListener('x', gone);
    t.addEventListener('y', () => out.push('never'));
    t.dispatchEvent(new Event('x')); t.dispatchEvent(new Event('x'));
    return out
    """
    assert session.run(code) == ["capture", "bubble", "once", "xtrue", "capture", "bubble", "xtrue"]


def test_stopping_preventing_and_details(session):
    code = """
    const t = new EventTarget(), out = [];
    t.addEventListener('x', e => { e.preventDefault(); e.stopImmediatePropagation(); out.push(e.target === t,
      e.currentTarget === t, e.eventPhase, e.detail, e.isTrusted) });
    t.addEventListener('x', () => out.push('never'));
    const e = new CustomEvent('x', {cancelable: true, detail: {a: 1}});
    out.push(t.dispatchEvent(e), e.defaultPrevented, e.currentTarget, e instanceof Event,
      t.dispatchEvent(new Event('x')));
    t.addEventListener('p', e => e.preventDefault(), {passive: true});
    out.push(t.dispatchEvent(new Event('p', {cancelable: true})));
    return out
    """
    first, second = [True, True, 2, {"a": 1}, False], [True, True, 2, None, False]
    assert session.run(code) == [*first, *second, False, True, None, True, True, True]


def test_an_error_in_a_listener_is_reported_and_does_not_stop_the_others(session):
    code = """
    const t = new EventTarget(); let after = false;
    t.addEventListener('x', () => { throw new RangeError('bad listener') }); t.addEventListener('x',
      () => { after = true });
    t.dispatchEvent(new Event('x')); await null; return after
    """
    result = session.execute(code)
    assert result.result is True
    assert "bad listener" in result.stderr


def test_an_event_cannot_be_dispatched_while_it_is(session):
    code = """
    const t = new EventTarget(), e = new Event('x'); let name;
    t.addEventListener('x', () => { try { t.dispatchEvent(e) } catch (error) { name = error.name } });
    t.dispatchEvent(e); t.dispatchEvent(e); return name
    """
    assert session.run(code) == "InvalidStateError"


def test_aborting(session):
    code = """
    const c = new AbortController(), out = [c.signal.aborted, c.signal.reason];
    c.signal.onabort = e => out.push(e.type, e.isTrusted); c.signal.addEventListener('abort',
      () => out.push('listener'));
    c.abort(); c.abort('again');
    out.push(c.signal.aborted, c.signal.reason.name, c.signal.reason instanceof DOMException);
    try { c.signal.throwIfAborted() } catch (e) { out.push(e === c.signal.reason) }
    out.push(AbortSignal.abort('why').reason);
    return out
    """
    assert session.run(code) == [False, None, "abort", True, "listener", True, "AbortError", True, True, "why"]


def test_a_signal_removes_listeners(session):
    code = """
    const c = new AbortController(), t = new EventTarget(); let n = 0;
    t.addEventListener('x', () => n++, {signal: c.signal}); t.dispatchEvent(new Event('x')); c.abort();
      t.dispatchEvent(new Event('x'));
    t.addEventListener('x', () => n++, {signal: c.signal}); t.dispatchEvent(new Event('x'));
    return n
    """
    assert session.run(code) == 1


def test_any_follows_the_first_and_sees_all_aborted_before_listeners(session):
    code = """
    const a = new AbortController(), b = new AbortController(), any = AbortSignal.any([a.signal, b.signal]),
      outer = AbortSignal.any([any]), out = [];
    b.signal.addEventListener('abort', () => out.push(any.aborted, outer.aborted));
    outer.addEventListener('abort', () => out.push(outer.reason));
    b.abort('because'); a.abort('late');
    out.push(any.reason, AbortSignal.any([AbortSignal.abort(1), b.signal]).reason, AbortSignal.any([]).aborted);
    return out
    """
    assert session.run(code) == [True, True, "because", "because", 1, False]


def test_a_timeout_is_on_the_virtual_clock(session):
    code = """
    const started = Date.now(), signal = AbortSignal.timeout(3600_000);
    await new Promise(done => signal.addEventListener('abort', done));
    return [Date.now() - started, signal.reason.name]
    """
    assert session.run(code) == [3_600_000, "TimeoutError"]


def test_a_timeout_that_is_left_over_is_silent_and_a_timer_is_not(session):
    assert session.execute("AbortSignal.timeout(1000); return 1").stderr == ""
    assert "timer was still set" in session.execute("setTimeout(() => {}, 1000); return 1").stderr


def test_illegal_constructions(session):
    code = """
    return [() => new AbortSignal(), () => new Event(), () => new Crypto(), () => AbortController(),
      () => AbortSignal.timeout(-1), () => AbortSignal.any([1]),
      () => new EventTarget().dispatchEvent({type: 'x'}), () => new EventTarget().addEventListener('x'),
        () => new EventTarget().addEventListener('x', null)]
      .map(f => { try { f(); return 'ok' } catch (e) { return e.name } })
    """
    assert session.run(code) == ["TypeError"] * 8 + ["ok"]


def test_targets_can_be_extended(session):
    code = """
    class Bus extends EventTarget { emit(name, detail) { return this.dispatchEvent(new CustomEvent(name, {detail})) } }
    const bus = new Bus(); let got; bus.addEventListener('m', e => { got = e.detail }); bus.emit('m', 5); return got
    """
    assert session.run(code) == 5


def test_intervals_immediates_and_nesting(session):
    code = """
    const out = [], started = performance.now(); let n = 0;
    await new Promise(done => {
      const id = setInterval((a) => { out.push(a + ++n); if (n === 3) { clearInterval(id); done() } }, 10, 'tick');
      setTimeout(() => setTimeout(() => out.push('nested'), 5), 10);
      setImmediate(() => out.push('immediate')); queueMicrotask(() => out.push('micro'));
      clearTimeout(setTimeout(() => out.push('never'), 1)); clearTimeout(undefined); clearImmediate(12345);
    });
    return [out, performance.now() - started]
    """
    assert session.run(code) == [["micro", "immediate", "tick1", "nested", "tick2", "tick3"], 30]


def test_a_text_is_no_handler(session):
    """Browsers evaluate it; here it is an error that says so, as in Node."""
    code = "try { setTimeout('globalThis.ran = 1', 1) } catch (e) { return [e.name, e.message] }"
    name, message = session.run(code)
    assert name == "TypeError"
    assert "function" in message


def test_state_of_signals_survives_between_runs(session):
    session.run(
        "const c = new AbortController(), heard = []; c.signal.addEventListener('abort', () => heard.push(c.signal.reason))"
    )
    session.run("c.abort('later')")
    assert session.run("return heard") == ["later"]
