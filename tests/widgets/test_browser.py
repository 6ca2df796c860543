# ruff: noqa: E501, because sources of widgets are long lines
"""Widgets in real Chromium: they work, they look as they should, and they get nothing out."""

from __future__ import annotations

import http.server
import json
import re
import threading
import time
from pathlib import Path

import pytest

from tests.widgets.png import areas

pytestmark = pytest.mark.registry
PLUGIN = "npm:@tailwindcss/vite@latest"

COUNTER = """import { useEffect, useState } from "react";

export default function Counter() {
  const [count, setCount] = useState(0);
  const [ready, setReady] = useState(false);
  useEffect(() => setReady(true), []);
  return (
    <main className="p-[20px]">
      <h1 id="title">Sales & more: {"</script>"} 𝑥 é</h1>
      <p id="ready">{String(ready)}</p>
      <button id="more" className="block w-[100px] h-[40px] bg-[#c02040]" onClick={() => setCount(count + 1)}>{count}</button>
      <div className="mt-[10px] flex">
        <div className="w-[60px] h-[30px] bg-[#204080]" />
        <div className="w-[90px] h-[30px] bg-[#20a060]" />
      </div>
      <p id="red" className="text-red-500 md:font-bold max-md:font-thin">red</p>
    </main>
  );
}
"""


@pytest.fixture
def show(browser, tmp_path, render):
    """Renders a widget and opens its page as a file."""

    def opened(source, **options):
        path = render(source, **options).save(tmp_path / "widget.html")
        browser.open(path.as_uri())
        browser.until("document.querySelector('#root > *')")
        return browser

    return opened


def test_a_widget_works(show):
    page = show(COUNTER, plugins=[PLUGIN])
    assert page.value("document.title") == "Counter"
    assert page.value("document.querySelector('#title').textContent") == "Sales & more: </script> 𝑥 é"
    page.until("document.querySelector('#ready').textContent === 'true'")
    for count in (1, 2):
        page.click("#more")
        page.until(f"document.querySelector('#more').textContent === '{count}'")
    assert page.complaints() == []


def test_the_widget_of_the_readme(show):
    """Its picture has one blue button of the size that its classes say, and it counts."""
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    (source,) = re.findall(r'^widget = """\n(.*?)^"""', readme, re.DOTALL | re.MULTILINE)
    page = show(source, plugins=[PLUGIN])
    assert areas(page.screenshot())[0x20, 0x40, 0x80][2:] == (200, 40)
    for count in (1, 2):
        page.click("button")
        page.until(f"document.querySelector('button').textContent === 'clicked {count} times'")
    assert page.complaints() == []


def test_it_looks_as_its_classes_say(show):
    expected = {
        (0xC0, 0x20, 0x40): (100, 40),
        (0x20, 0x40, 0x80): (60, 30),
        (0x20, 0xA0, 0x60): (90, 30),
    }
    page = show(COUNTER, plugins=[PLUGIN])
    boxes = areas(page.screenshot())
    assert {colour: boxes[colour][2:] for colour in expected} == expected
    red, blue, green = (boxes[colour] for colour in expected)
    assert red[0] == blue[0] == 20  # the padding of the whole, and nothing else
    assert blue[1] == green[1] == red[1] + 40 + 10
    assert green[0] == blue[0] + 60
    assert (
        page.value("getComputedStyle(document.querySelector('#red')).fontWeight") == "700"
    )  # the window is wider than `md`
    assert page.value("getComputedStyle(document.querySelector('#red')).color") not in ("", "rgb(0, 0, 0)")
    bare = areas(show(COUNTER).screenshot())  # the control: without Tailwind CSS there is none of it
    assert not set(expected) & set(bare)


def test_a_widget_that_fails_later_says_so_in_its_place(show):
    source = """import { useState } from "react";
export default function W() {
  const [bad, set] = useState(false);
  if (bad) throw new Error("not now");
  return <button onClick={() => set(true)}>x</button>;
}"""
    page = show(source)
    page.click("button")
    page.until("document.querySelector('[role=alert]')")
    assert page.value("document.querySelector('[role=alert]').textContent") == "This widget failed.\nError: not now"


WAYS_OUT = {
    "fetch": "fetch(U + 'fetch').catch(() => {})",
    "xhr": "(() => { const x = new XMLHttpRequest(); x.open('GET', U + 'xhr'); x.send() })()",
    "image": "new Image().src = U + 'image'",
    "script": "document.head.append(Object.assign(document.createElement('script'), { src: U + 'script' }))",
    "style": "document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: U + 'style' }))",
    "import": "import(/* @vite-ignore */ U + 'import').catch(() => {})",
    "css": "document.head.append(Object.assign(document.createElement('style'), { textContent: `body { background: url(${U}css) }` }))",
    "css-import": "document.head.append(Object.assign(document.createElement('style'), { textContent: `@import url(${U}css-import);` }))",
    "font": "new FontFace('x', `url(${U}font)`).load().catch(() => {})",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), { src: U + 'frame' }))",
    "srcdoc": "document.body.append(Object.assign(document.createElement('iframe'), { srcdoc: `<img src=${U}srcdoc><script>fetch('${U}srcdoc')</script>` }))",
    "object": "document.body.append(Object.assign(document.createElement('object'), { data: U + 'object' }))",
    "video": "document.body.append(Object.assign(document.createElement('video'), { src: U + 'video', autoplay: true }))",
    "beacon": "navigator.sendBeacon(U + 'beacon')",
    "socket": "new WebSocket(U.replace('http', 'ws') + 'socket')",
    "events": "new EventSource(U + 'events')",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('${U}worker')`])))",
    "data-worker": "new Worker(`data:text/javascript,fetch('${U}data-worker')`)",
    "prefetch": "document.head.append(Object.assign(document.createElement('link'), { rel: 'prefetch', href: U + 'prefetch' }))",
    "preload": "document.head.append(Object.assign(document.createElement('link'), { rel: 'preload', as: 'image', href: U + 'preload' }))",
    "form": "(() => { const f = Object.assign(document.createElement('form'), { action: U + 'form', method: 'post' }); document.body.append(f); globalThis.submit = () => f.submit() })()",
    "inline": "document.body.append(Object.assign(document.createElement('script'), { textContent: `fetch('${U}inline')` }))",
    "base": "(() => { document.head.append(Object.assign(document.createElement('base'), { href: U })); new Image().src = 'base' })()",
    "eval": "(0, eval)(`fetch('${U}eval')`)",
}


@pytest.fixture
def server():
    """Notes which paths anybody asked for."""
    asked = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.add(self.path.strip("/"))
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_):
            pass

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.daemon_threads = True
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    serving.asked = asked
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_a_hostile_widget_gets_nothing_out(browser, tmp_path, render, server):
    address = f"http://127.0.0.1:{server.server_port}/"
    attempts = ";\n".join(f"try {{ {code} }} catch {{ }}" for code in WAYS_OUT.values())
    source = f"""import {{ useEffect }} from "react";
const U = {json.dumps(address)};
function out() {{ if (navigator.userAgent.includes("Chrome")) {{ {attempts} }} (globalThis as any).done = true; }}
export default function W() {{ useEffect(out, []); return <p>hi</p> }}"""
    html = render(source).html
    unprotected = html.replace('http-equiv="Content-Security-Policy"', 'name="nothing"')
    assert unprotected != html
    (tmp_path / "page.html").write_text(html)
    (tmp_path / "control.html").write_text(unprotected)

    browser.open((tmp_path / "page.html").as_uri())
    browser.until("globalThis.done")
    browser.value("globalThis.submit()")
    browser.value("new Promise((resolve) => setTimeout(resolve, 500))")
    assert server.asked == set()
    assert sum("Content Security Policy" in text for text in browser.complaints()) > 10

    expected = {
        "fetch",
        "xhr",
        "image",
        "script",
        "style",
        "import",
        "css",
        "frame",
        "beacon",
        "socket",
        "events",
        "worker",
        "eval",
    }
    browser.open((tmp_path / "control.html").as_uri())
    end = time.monotonic() + 10
    while not expected <= server.asked and time.monotonic() < end:
        time.sleep(0.05)
    assert expected <= server.asked
    browser.ask("Runtime.evaluate", expression="globalThis.submit()")  # it leads away, so it comes last
    while "form" not in server.asked and time.monotonic() < end:
        time.sleep(0.05)
    assert "form" in server.asked


def test_a_script_with_a_zero_byte_is_the_one_that_its_hash_allows(show):
    source = "const zero = /^a\0[\\\0]$/;\nexport default () => <p id='said'>{String(zero.test('a\\0\\0'))}{String.raw`\0`.length}</p>"
    page = show(source)
    assert page.value("document.querySelector('#said').textContent") == "true1"
    assert page.complaints() == []


def test_code_made_of_text_is_refused_in_the_page_too(browser, tmp_path, render):
    source = """import { useState } from "react";
export default function W() {
  const [said] = useState(() => { try { return navigator.userAgent.includes("Chrome") ? String(new Function("return 1")()) : "1" } catch (e) { return (e as Error).name } });
  return <p id="said">{said}</p>;
}"""
    browser.open(render(source).save(tmp_path / "w.html").as_uri())
    browser.until("document.querySelector('#said')")
    assert browser.value("document.querySelector('#said').textContent") == "EvalError"
