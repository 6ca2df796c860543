"""Whatever prints is told: the line to the host is on descriptor 1, where nothing else may come."""

from __future__ import annotations

import json

import pytest

from .conftest import opened


@pytest.fixture(scope="module")
def roomy():
    """A session with room for Workers."""
    with opened(max_memory_mb=2048) as session:
        yield session


FS = "import fs from 'node:fs'; import { promisify } from 'node:util';\n"
PRINTED = {
    "writeSync": ("fs.writeSync(1, 'a\\n'); fs.writeSync(2, 'b')", "a\n", "b\n"),
    "writeSync of some bytes": (
        "fs.writeSync(1, Buffer.from('xabx'), 1, 2); fs.writeSync(1, Buffer.from('xcd'), { offset: 1 })",
        "abcd\n",
        "",
    ),
    "write": ("await new Promise(r => fs.write(1, 'a', r)); await promisify(fs.write)(2, Buffer.from('bcd'), 1, 2)", "a\n", "cd\n"),
    "writevSync": ("fs.writevSync(1, [Buffer.from('a'), Buffer.from('b')])", "ab\n", ""),
    "writev": ("await new Promise(r => fs.writev(1, [Buffer.from('a'), Buffer.from('b')], r))", "ab\n", ""),
    "writeFileSync": ("fs.writeFileSync(1, 'a'); fs.writeFileSync(2, '6869', 'hex')", "a\n", "hi\n"),
    "writeFile": ("await promisify(fs.writeFile)(1, 'a')", "a\n", ""),
    "appendFileSync": ("fs.appendFileSync(1, 'a')", "a\n", ""),
    "appendFile": ("await promisify(fs.appendFile)(1, 'a', { encoding: 'utf8' })", "a\n", ""),
    "promises": ("await fs.promises.writeFile(1, 'a'); await fs.promises.appendFile(1, 'b')", "ab\n", ""),
    "createWriteStream": ("const w = fs.createWriteStream('', { fd: 1 }); w.write('a'); await new Promise(r => w.end('b', r))", "ab\n", ""),
    "WriteStream": ("new fs.WriteStream('', { fd: 2 }).write('a')", "", "a\n"),
    "a character in two pieces": ("fs.writeSync(1, Buffer.from([0xe2, 0x82])); fs.writeSync(1, Buffer.from([0xac]))", "€\n", ""),
    "after closing": ("fs.closeSync(1); fs.closeSync(0); await promisify(fs.close)(2); fs.writeSync(1, 'a')", "a\n", ""),
    "process.stdout": ("process.stdout.write('aGk=', 'base64'); process.stdout.end('!')", "hi!\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_node_prints(module, name):
    source, out, err = PRINTED[name]
    result = module(f"{FS}export default async () => {{ {source}; }}")
    assert (result.exit_reason, result.stdout, result.stderr) == ("returned", out, err)
    assert not module("1").state_lost


def test_calls_of_node_give_what_they_give_elsewhere(module):
    given = (
        "const call = (...args) => new Promise((done) => fs.write(...args, (error, size, data) => done([error, size, String(data)])));\n"
        "export default async () => [fs.writeSync(1, '€'), fs.writevSync(1, [Buffer.from('ab')]), fs.writeFileSync(1, 'c') ?? null, "
        "await call(1, 'de'), await call(1, Buffer.from('fgh'), 1, 1), await promisify(fs.write)(1, 'i')]"
    )
    expected = [3, 2, None, [None, 2, "de"], [None, 1, "fgh"], {"bytesWritten": 1, "buffer": "i"}]
    assert module.value(FS + given) == expected


def test_there_is_nothing_to_read(module):
    """What comes there is the host's."""
    source = (
        "export default async () => { const b = Buffer.alloc(4); let n = 0;\n"
        "for await (const _ of fs.createReadStream('', { fd: 0 })) n++; for await (const _ of process.stdin) n++;\n"
        "return [n, fs.readSync(0, b), (await promisify(fs.read)(0, b, 0, 4, null)).bytesRead, fs.readvSync(0, [b]),\n"
        "  fs.readFileSync(0, 'utf8'), fs.readFileSync(0).length, await promisify(fs.readFile)(0, 'utf8')] }"
    )
    assert module.value(FS + source, timeout=10) == [0, 0, 0, 0, "", 0, ""]


def test_other_descriptors_are_as_they_were(module):
    assert module.fails(f"{FS}export default () => fs.writeSync(77, 'a')").exit_reason == "threw"
    (module.session.workspace / "data.txt").write_text("some")
    read = "const fd = fs.openSync('/workspace/data.txt'); const b = Buffer.alloc(4); fs.readSync(fd, b); fs.closeSync(fd);"
    assert (
        module.value(f"{FS}export default () => {{ {read} return String(b) + fs.readFileSync('/workspace/data.txt') }}")
        == "somesome"
    )


# ── Workers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

ALL = "console.log('a'); console.error('b'); Deno.stdout.writeSync(new TextEncoder().encode('c\\n')); process.stdout.write('d\\n');"
PATCHED = "process.getBuiltinModule('node:fs').writeSync(1, 'e\\n');"
READ = "Deno.stdin.readSync(new Uint8Array(4));"


def web(code, url=None):
    """The first message of a web Worker."""
    source = url or f"data:text/javascript,${{encodeURIComponent({json.dumps(code)})}}"
    return (
        f"const w = new Worker(`{source}`, {{ type: 'module' }});\nconst said = await new Promise((done, failed) => "
        "{ w.onmessage = (event) => done(event.data);\n"
        "  w.onerror = (event) => { event.preventDefault(); failed(new Error(event.message)) } });\n"
        "w.terminate(); said"
    )


def node(what, options="{}"):
    """The first message of a Worker of Node.js."""
    return (
        f"import {{ Worker }} from 'node:worker_threads';\nconst w = new Worker({what}, {options});\n"
        "const said = await new Promise((done, failed) => { w.once('message', done); w.once('error', failed) });\n"
        "await w.terminate();\nexport default () => said"
    )


def test_a_web_worker_prints(roomy):
    result = roomy(web(f"{ALL}{PATCHED}{READ} postMessage(5)"))
    assert (result.value, result.stdout, result.stderr) == (5, "a\nc\nd\ne\n", "b\n")
    assert not roomy("1").state_lost


def test_a_web_worker_prints_while_there_are_tools(roomy):
    result = roomy(web("console.log('a'); postMessage(5)"), tools={"a": lambda: 1})
    assert (result.value, result.stdout) == (5, "a\n")


def test_a_web_worker_of_a_file_knows_its_name(roomy):
    code = "const n: number = 1; console.log(n); postMessage([location.href, import.meta.url])"
    (roomy.session.workspace / "worker.ts").write_text(code)
    name = "file:///workspace/worker.ts"
    result = roomy(web("", name))
    assert (result.value, result.stdout) == ([name, name], "1\n")


def test_a_web_worker_of_a_blob(roomy):
    url = "${URL.createObjectURL(new Blob(['console.log(1); postMessage(2)'], { type: 'text/javascript' }))}"
    result = roomy(web("", url))
    assert (result.value, result.stdout) == (2, "1\n")


def test_a_web_worker_has_its_messages_and_no_others(roomy):
    code = "onmessage = (event) => { console.log('got', event.data); postMessage(event.data * 2) }"
    source = (
        f"const w = new Worker('data:text/javascript,' + encodeURIComponent({json.dumps(code)}), {{ type: 'module' }});\n"
        "const said = []; w.addEventListener('message', (event) => said.push(event.data)); w.postMessage(1); w.postMessage(2);\n"
        "while (said.length < 2) await new Promise((r) => setTimeout(r, 5)); w.terminate(); [said, w instanceof Worker]"
    )
    result = roomy(source)
    assert (result.value, result.stdout) == ([[2, 4], True], "got 1\ngot 2\n")


def test_a_worker_inside_of_a_worker(roomy):
    inner = 'new Worker("data:text/javascript,console.log(2);postMessage(3)", { type: "module" }).onmessage = (e) => postMessage(e.data)'
    result = roomy(web(f"console.log(1); {inner}"))
    assert (result.value, result.stdout) == (3, "1\n2\n")


def test_web_workers_fail_in_their_own_words(roomy):
    assert "syntax" in roomy.fails(web("console.log(;")).error.lower()
    assert "boo" in roomy.fails(web("throw new Error('boo')")).error
    assert "Module not found" in roomy.fails(web("", "file:///workspace/missing.ts")).error
    assert "does not grant" in roomy.fails(web("", "file:///etc/passwd")).error
    assert "Classic workers" in roomy.fails("new Worker('data:text/javascript,1')").error


TELL = "require('node:worker_threads').parentPort.postMessage(5)"


def test_a_worker_of_node_prints(roomy):
    required = "require('node:fs').writeSync(1, 'e\\n'); require('node:fs').writeSync(2, 'f\\n');"
    result = roomy(node(json.dumps(f"{ALL}{required}{READ} {TELL}"), "{ eval: true }"))
    assert (result.value, result.stdout, result.stderr) == (5, "a\nc\nd\ne\n", "b\nf\n")
    assert not roomy("1").state_lost


@pytest.mark.parametrize(
    "what", ["'/workspace/worker.cjs'", "'./worker.cjs'", "new URL('file:///workspace/worker.cjs')"]
)
def test_a_worker_of_node_from_a_file(roomy, what):
    (roomy.session.workspace / "worker.cjs").write_text(
        "console.log('a'); require('worker_threads').parentPort.postMessage(__filename)"
    )
    result = roomy(node(what))
    assert (result.value, result.stdout) == ("/workspace/worker.cjs", "a\n")


def test_a_worker_of_node_from_a_module_has_its_data(roomy):
    code = "import { parentPort, workerData } from 'node:worker_threads'; console.log('a'); parentPort.postMessage(workerData)"
    result = roomy(
        node(f"new URL('data:text/javascript,' + encodeURIComponent({json.dumps(code)}))", "{ workerData: [1] }")
    )
    assert (result.value, result.stdout) == ([1], "a\n")


def test_the_output_of_a_worker_of_node_can_be_kept(roomy):
    source = node(json.dumps(f"console.log('mine'); {TELL}"), "{ eval: true, stdout: true }")
    result = roomy(
        source.replace("const said", "let text = ''; w.stdout.on('data', (part) => text += part);\nconst said").replace(
            "=> said", "=> text"
        )
    )
    assert (result.value, result.stdout) == ("mine\n", "")


def test_what_is_not_diverted_is_told(module):
    """Through Deno's own core: nothing that runs by itself."""
    result = module.fails(
        "Deno[Deno.internal].core.print('hello, this is no frame'); await new Promise(r => setTimeout(r, 2000)); 1"
    )
    assert result.exit_reason == "crashed"
    assert "console.log" in result.error
