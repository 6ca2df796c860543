"""Images: dump, load, differences, determinism, and refusal of everything malformed."""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import threading
import zlib
from typing import NoReturn

import pytest

from gloveport.engines.wasm.guest import INTERRUPTED, Guest
from gloveport.errors import ImageError

from .driver import MEMORY, Session, answer, messages, module, options, run

PAGE = 4096


def inflate(image: bytes) -> tuple[tuple[int, int, int], list[int], bytes]:
    data = zlib.decompress(image)
    head = struct.unpack_from("<III", data)
    offsets = list(struct.unpack_from(f"<{head[2]}I", data, 12))
    return head, offsets, data[12 + 4 * head[2] :]


def deflate(head: tuple[int, int, int], offsets: list[int], pages: bytes) -> bytes:
    return zlib.compress(struct.pack("<III", *head) + struct.pack(f"<{len(offsets)}I", *offsets) + pages, 1)


def paused(session: Session) -> bytes:
    session.run(
        "globalThis.kept = new Map([['a', 1]]); const x = [1]; const got = await tool(x); return [got, kept.get('a'), x, Math.random()]"
    )
    session.guest.step(b"G")
    return session.guest.dump()


def test_a_paused_run_goes_on_from_its_image(session: Session) -> None:
    image = paused(session)
    here = session.step(answer(1, "ok"))[-1]["v"]
    with Session() as other:
        other.guest.load([image])
        assert other.step(answer(1, "ok"))[-1]["v"] == here
        other.guest.load([image])
        assert other.step(answer(1, "ok"))[-1]["v"] == here


def test_dump_load_dump_is_the_same(session: Session) -> None:
    image = paused(session)
    guest = Guest(module(), memory_limit=MEMORY)
    guest.load([image])
    assert guest.dump() == image
    guest.close()


def test_an_image_does_not_depend_on_what_the_guest_did_before(session: Session) -> None:
    image = paused(session)
    with Session() as used:
        used.run("globalThis.a = Array(1e5).fill({}).map(() => ({x: 1})); await tool()")
        used.guest.load([image])
        assert used.guest.dump() == image
        used.guest.reset()
        assert inflate(used.guest.dump())[1] == []


def test_differences_to_a_reference(session: Session) -> None:
    first = paused(session)
    session.step(answer(1, "ok"))
    session.run("globalThis.more = Array.from({length: 500}, (_, i) => ({i})); delete globalThis.kept; await tool()")
    session.guest.step(b"G")
    whole, delta = session.guest.dump(), session.guest.dump(first)
    assert len(inflate(delta)[1]) < len(inflate(whole)[1])
    with Session() as other:
        other.guest.load([first, delta])
        assert other.guest.dump() == whole
        assert other.step(answer(2))[-1]["t"] == "done"
        assert other.value("return [more.length, typeof kept]") == [500, "undefined"]


def test_a_delta_restores_pages_that_are_as_in_the_base_again(session: Session) -> None:
    session.run("globalThis.big = 'x'.repeat(1e6); return 1")
    first = session.guest.dump()
    session.run("globalThis.big = null; return 1")
    session.guest.step(b"G")
    whole, delta = session.guest.dump(), session.guest.dump(first)
    with Session() as other:
        other.guest.load([first, delta])
        assert other.guest.dump() == whole


def test_random_numbers_go_on(session: Session) -> None:
    stream = "return [Math.random(), Math.random()]"
    a = session.value(stream)
    image = session.guest.dump()
    b = session.value(stream)
    session.guest.load([image])
    assert session.value(stream) == b
    with Session() as same, Session(seed="43") as other:
        assert same.value(stream) == a
        assert other.value(stream) != a
    assert len({*a, *b}) == 4


def test_rollback_after_an_interrupt(session: Session) -> None:
    session.value("globalThis.n = 1")
    image = session.guest.dump()
    session.guest.step(run("n = 2; const f = () => 1; throw 0"))
    session.guest.load([image])
    assert session.value("return n") == 1


def test_the_image_follows_the_live_heap() -> None:
    sizes = {}
    for count in (10, 10_000):
        with Session(memory=256 << 20) as session:
            said = session.run(
                f"await Promise.all(Array.from({{length: {count}}}, (_, i) => tool({{i, s: 'hello'}}))); return await other()"
            )
            for call in [m for m in said if m["t"] == "call"]:
                session.guest.step(answer(call["id"], {"ok": call["id"]}))
            session.guest.step(b"G")
            sizes[count] = len(zlib.decompress(session.guest.dump()))
            assert session.step(answer(count + 1, "end"))[-1]["v"] == "end"
    assert sizes[10_000] < sizes[10] * 1.5


@pytest.mark.parametrize(
    "code",
    [
        "globalThis.u = null; let a = []; for (let i = 0; i < 50000; i++) a.push({i}); a = null",
        "new Uint8Array(3e7).fill(1)",
        "'x'.repeat(2e7)",
    ],
)
def test_dropped_memory_leaves_the_image(session: Session, code: str) -> None:
    session.value("return 1")
    session.guest.step(b"G")
    before = len(zlib.decompress(session.guest.dump()))
    session.value(code)
    session.guest.step(b"G")
    assert len(zlib.decompress(session.guest.dump())) < before + 200_000  # holes in pages of the base image were used
    session.value("globalThis.live = Array.from({length: 20000}, (_, i) => ({i}))")  # the control: live data is in it
    assert len(zlib.decompress(session.guest.dump())) > before + 1_000_000


# ── malformed images ──


def broken_images() -> dict[str, bytes]:
    with Session() as session:
        image = paused(session)
    (pointer, size, count), offsets, pages = inflate(image)
    flag = module().flag_offset

    def change(**new: object) -> bytes:
        head = (new.get("pointer", pointer), new.get("size", size), new.get("count", count))
        return deflate(head, new.get("offsets", offsets), new.get("pages", pages))  # type: ignore[arg-type]

    return {
        "not zlib": b"not an image",
        "empty": b"",
        "cut": image[:-10],
        "something after it": image + b"x",
        "no header": zlib.compress(b"12345"),
        "stack pointer 0": change(pointer=0),
        "stack pointer high": change(pointer=pointer + 16),
        "size unaligned": change(size=size + PAGE),
        "size below base": change(size=65536),
        "size above limit": change(size=MEMORY + 65536),
        "count too large": change(count=count + 1),
        "count huge": change(count=0xFFFFFFFF),
        "count too small": change(count=count - 1),
        "unaligned offset": change(offsets=[offsets[0] + 1, *offsets[1:]]),
        "descending": change(offsets=offsets[::-1]),
        "twice": change(offsets=[offsets[0], offsets[0], *offsets[2:]]),
        "beyond memory": change(offsets=[*offsets[:-1], size]),
        "far beyond memory": change(offsets=[*offsets[:-1], 0xFFFFF000]),
        "dead stack": change(offsets=[0, *offsets[1:]]),
        "the interrupt page": deflate((pointer, size, 1), [flag], b"\1" * PAGE),
        "half a page": change(pages=pages[: -PAGE // 2]),
        "bomb": zlib.compress(struct.pack("<III", pointer, size, 0) + bytes(300 << 20), 9),
    }


BROKEN = broken_images()


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_images_change_nothing(session: Session, name: str) -> None:
    good = paused(session)
    before = session.guest.dump()
    for images in ([BROKEN[name]], [good, BROKEN[name]], [BROKEN[name], good]):
        with pytest.raises(ImageError):
            session.guest.load(images)
        assert session.guest.dump() == before
    with pytest.raises(ImageError):
        session.guest.dump(BROKEN[name])
    assert session.step(answer(1, 5))[-1]["v"][0] == 5


def test_an_image_larger_than_the_limit_is_refused(session: Session) -> None:
    session.value("globalThis.a = new Uint8Array(3e7).fill(7)")
    image = session.guest.dump()
    small = Guest(module(), memory_limit=16 << 20)
    with pytest.raises(ImageError, match="memory limit"):
        small.load([image])
    small.set_memory_limit(MEMORY)
    small.load([image])
    assert messages(small.step(run("return a[29999999]")).output)[-1]["v"] == 7
    small.close()


def test_random_damage_never_harms_the_host(session: Session) -> None:
    """Bytes of pages may be anything: the guest may trap or talk nonsense, the host must stay whole."""
    image = paused(session)
    (pointer, size, count), offsets, pages = inflate(image)
    dice = random.Random(1)
    for _ in range(40):
        damaged = bytearray(pages)
        for _ in range(dice.choice((1, 20, 400))):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        blob = deflate((pointer, size, count), offsets, bytes(damaged))
        pid = os.fork()  # it may loop where nothing looks at the flag
        if not pid:
            _answer_damaged(session, blob)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert ended in (0, -signal.SIGALRM)
    session.guest.load([image])
    assert session.step(answer(1, "ok"))[-1]["t"] == "done"


def _answer_damaged(session: Session, blob: bytes) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        session.guest.load([blob])
        reply = session.guest.step(answer(1, "x"))
        assert reply.status in range(4)
        session.guest.dump()
        code = 0
    except (ImageError, RuntimeError):
        code = 0
    finally:
        os._exit(code)


# ── the interrupt page ──


def test_a_shared_flag_interrupts_and_survives_reset_and_load(session: Session) -> None:
    fd = os.memfd_create("flag")
    os.ftruncate(fd, PAGE)
    page = mmap.mmap(fd, PAGE)
    address = session.guest.flag_address
    session.guest.share_flag(fd)
    os.close(fd)
    assert address % PAGE == 0
    image = session.guest.dump()
    for fresh in (False, True):
        if fresh:
            session.guest.reset()
            session.guest.step(options())
        else:
            session.guest.load([image])
        assert session.guest.flag_address == address
        timer = threading.Timer(0.05, lambda: page.__setitem__(0, 1))
        timer.start()
        reply = session.guest.step(run("for (;;);"))
        timer.join()
        assert reply.status == INTERRUPTED
        assert page[0] == 1
    page.close()
