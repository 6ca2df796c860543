"""Hosts that are killed and frozen at random while they work on sessions in one PostgreSQL: what is left must add up.

`python -m tests.faults.storm --seconds 120` is the long one; the tests run a short one. It prints one line of JSON and exits with 1 when
anything is wrong:

- `lost`: calls that were made, and are neither answered nor reported as unknown in the session that made them;
- `repeated`: calls that were made more than once without being reported as unknown;
- `invented`: answers in a session for calls that were not made;
- `regained`: sessions that were charged for fewer calls than they made, or whose counter in the store ever went down;
- `unexpected`: hosts that ended by themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import psycopg

from gloveport.bench.postgres import private_server

from .host import LEASE, SESSIONS, Tools, make_pool, use


class Host:
    """A process that works until it is ended."""

    def __init__(self, conninfo, seed, isolation):
        arguments = [sys.executable, "-m", "tests.faults.host", conninfo, str(seed), isolation]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.thaw_at = None
        self.kill_at = time.monotonic() + random.uniform(1.2, 4.0)
        self.freeze_at = time.monotonic() + random.uniform(1.0, 3.0) if random.random() < 0.4 else None

    def tick(self, counts):
        """Do what is due. Gives whether it is over."""
        now = time.monotonic()
        if self.process.poll() is not None:
            counts["unexpected"] += 1
            return True
        if self.thaw_at is not None:
            if now >= self.thaw_at:
                self.thaw_at = None
                self.process.send_signal(signal.SIGCONT)
                self.kill_at = now + random.uniform(0.3, 1.0)
        elif self.freeze_at is not None and now >= self.freeze_at:
            self.freeze_at = None
            self.process.send_signal(signal.SIGSTOP)
            counts["frozen"] += 1
            self.thaw_at = now + LEASE * random.uniform(1.2, 2.0)
        elif now >= self.kill_at:
            self.process.kill()
            counts["killed"] += 1
            return True
        return False

    def end(self):
        self.process.kill()
        output = self.process.communicate()[0].decode(errors="replace")
        return [line for line in output.splitlines() if line and not line.startswith("started")]


def storm(seconds, *, hosts=3, seed=0, isolation="inline"):
    """Run one, and give what came of it."""
    random.seed(seed)
    with private_server(durable=False) as conninfo:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("CREATE TABLE effects (id BIGSERIAL PRIMARY KEY, session TEXT, tag TEXT)")
            counts, said = _rage(connection, conninfo, seconds, hosts, isolation)
            ledgers = asyncio.run(_settle(conninfo))
            effects = Counter(connection.execute("SELECT session, tag FROM effects").fetchall())
    return _judge(counts, said, ledgers, effects)


def _rage(connection, conninfo, seconds, hosts, isolation):
    counts, said, spent = Counter(), Counter(), {}
    numbers = iter(range(random.randrange(10**6), 10**9))
    alive = [Host(conninfo, next(numbers), isolation) for _ in range(hosts)]
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(0.02)
            for host in list(alive):
                if host.tick(counts):
                    alive.remove(host)
                    _listen(host, said)
                    alive.append(Host(conninfo, next(numbers), isolation))
            for key, now in _counters(connection).items():
                counts["regained"] += now < spent.get(key, 0)
                spent[key] = now
    finally:
        for host in alive:
            _listen(host, said)
    return counts, said


def _listen(host, said):
    for line in host.end():
        said[line.split()[0] if line[0].isalpha() else "?"] += 1
        if "UNEXPECTED" in line or "Error:" in line:
            print(line, file=sys.stderr)


def _counters(connection):
    with contextlib.suppress(psycopg.errors.UndefinedTable):
        return dict(connection.execute("SELECT key, spent FROM storm_sessions").fetchall())
    return {}


async def _settle(conninfo):
    """On a calm host, finish what was left, and read what the sessions know."""
    tools = await Tools(conninfo).open()
    store, pool = make_pool(conninfo, tools.of, isolation="inline")
    ledgers = {}
    async with pool:
        for number in range(SESSIONS):
            async with pool.session("storm", str(number), timeout=10) as session:
                while session.interrupted or session.pending is not None:
                    await use(session)
                ledger = await session.run("return globalThis.ledger ?? []")
                ledgers[str(number)] = (ledger, session.calls_made, session.lost_runs)
    store.close()
    await tools.connection.close()
    return ledgers


def _judge(counts, said, ledgers, effects):
    result = {name: counts[name] for name in ("killed", "frozen", "regained", "unexpected")}
    result |= {
        "calls": sum(effects.values()),
        "answered": 0,
        "unknown": 0,
        "lost": 0,
        "repeated": 0,
        "invented": 0,
        "said": dict(said),
    }
    result["lost_runs"] = sum(lost for _, _, lost in ledgers.values())
    for session, (ledger, made, _) in ledgers.items():
        entries = Counter(tag for tag, _ in ledger)
        told = dict(ledger)
        happened = {tag: count for (sid, tag), count in effects.items() if sid == session}
        for tag, count in happened.items():
            unknown = told.get(tag) == "CallOutcomeUnknownError"
            result["lost"] += tag not in told
            result["repeated"] += count > 1 and not unknown
        for tag, outcome in told.items():
            result["unknown"] += outcome == "CallOutcomeUnknownError"
            result["answered"] += isinstance(outcome, int)
            result["invented"] += isinstance(outcome, int) and tag not in happened
        result["repeated"] += sum(count > 1 for count in entries.values())
        result["regained"] += made < len(ledger) or made < len(happened)
    return result


WRONG = ("lost", "repeated", "invented", "regained", "unexpected")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--isolation", default="process")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    result = storm(options.seconds, hosts=options.hosts, seed=seed, isolation=options.isolation)
    print(json.dumps({"seed": seed, **result}))
    sys.exit(any(result[name] for name in WRONG))


if __name__ == "__main__":
    main()
