"""Intl of the guest against what ICU writes (web_intl_icu.json), and its rules."""

from __future__ import annotations

import datetime
import json
import zoneinfo
from pathlib import Path

import pytest

from gloveport import AgentSandbox

ICU = json.loads(Path(__file__).with_name("web_intl_icu.json").read_text())


@pytest.fixture(scope="module")
def run():
    with AgentSandbox({}, isolation="inline") as session:
        yield session.run


def formatted(run, table, make):
    cases = json.dumps([case[:3] for case in table])
    return run(f"return {cases}.map(([locale, options, value]) => {make})")


def differences(table, found):
    return [(case, text) for case, text in zip(table, found, strict=True) if case[3] != text]


def test_numbers_are_written_as_icu_does(run):
    found = formatted(run, ICU["numbers"], "new Intl.NumberFormat(locale, options ?? undefined).format(value)")
    assert differences(ICU["numbers"], found) == []
    found = formatted(run, ICU["numbers"], "value.toLocaleString(locale, options ?? undefined)")
    assert differences(ICU["numbers"], found) == []


def test_dates_are_written_as_icu_does(run):
    found = formatted(run, ICU["dates"], "new Intl.DateTimeFormat(locale, {timeZone: 'UTC', ...options}).format(value)")
    assert differences(ICU["dates"], found) == []


def test_parts_join_to_the_text(run):
    make = "new Intl.NumberFormat(locale, options ?? undefined).formatToParts(value).map(p => p.value).join('')"
    assert differences(ICU["numbers"], formatted(run, ICU["numbers"], make)) == []
    make = (
        "new Intl.DateTimeFormat(locale, {timeZone: 'UTC', ...options}).formatToParts(value).map(p => p.value).join('')"
    )
    assert differences(ICU["dates"], formatted(run, ICU["dates"], make)) == []
    types = (
        "new Intl.NumberFormat('de-DE', {style: 'currency', currency: 'EUR'}).formatToParts(-1234.5).map(p => p.type)"
    )
    assert run(f"return {types}") == [
        "minusSign",
        "integer",
        "group",
        "integer",
        "decimal",
        "fraction",
        "literal",
        "currency",
    ]


ZONES = ["America/New_York", "Europe/Berlin", "Asia/Tokyo", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago"]
ZONES += ["Africa/Cairo", "Pacific/Apia"]


@pytest.mark.parametrize("zone", ZONES)
def test_offsets_agree_with_the_zone_database_of_python(run, zone):
    """From 1972 to 2025, around the clock changes too: a day of each month and the hours of the last Sundays of two."""
    rules = zoneinfo.ZoneInfo(zone)
    utc = datetime.UTC
    moments = [
        datetime.datetime(y, m, 1 + y * m % 27, 5, 30, tzinfo=utc) for y in range(1972, 2026, 3) for m in range(1, 13)
    ]
    changes = ((3, 10), (3, 31), (10, 27), (11, 3))
    moments += [datetime.datetime(2024, m, d, h, 30, tzinfo=utc) for m, d in changes for h in range(24)]
    stamps = [int(t.timestamp()) * 1000 for t in moments]
    options = f"{{timeZone: '{zone}', dateStyle: 'short', timeStyle: 'short'}}"
    code = f"const f = new Intl.DateTimeFormat('sv-SE', {options}); return {stamps}.map(t => f.format(t))"
    expected = [t.astimezone(rules).strftime("%Y-%m-%d %H:%M") for t in moments]
    assert [pair for pair in zip(moments, run(code), expected, strict=True) if pair[1] != pair[2]] == []


def test_the_methods_of_numbers_and_dates(run):
    code = """
    const d = new Date(Date.UTC(2025, 5, 15, 15, 6, 40));
    return [d.toLocaleString(), d.toLocaleDateString('de-DE'), d.toLocaleTimeString('en-GB'),
      d.toLocaleDateString('en-US', {weekday: 'short'}),
      d.toLocaleTimeString('en-US', {hour: '2-digit', minute: '2-digit'}), new Date(NaN).toLocaleString(),
        (12345678901234567890n).toLocaleString('de'),
      [1234.5, d].toLocaleString('de', {timeZone: 'UTC'}), new Float64Array([1234.5]).toLocaleString('de')]
    """
    assert run(code) == [
        *[
            "6/15/2025, 3:06:40\u202fPM",
            "15.6.2025",
            "15:06:40",
            "Sun",
            "03:06\u202fPM",
            "Invalid Date",
            "12.345.678.901.234.567.890",
        ],
        *["1.234,5,15.6.2025, 15:06:40", "1.234,5"],
    ]


def test_the_clock_of_a_format_is_virtual():
    with AgentSandbox({}, isolation="inline", clock=1_000_000_000) as session:
        code = """
        await new Promise(r => setTimeout(r, 86_400_000)); return new Intl.DateTimeFormat('en-US',
          {dateStyle: 'short'}).format()
        """
        assert session.run(code) == "9/10/01"


def test_plural_rules(run):
    code = """
    const all = (locale, type, list) => { const r = new Intl.PluralRules(locale, {type});
      return list.map(n => r.select(n)).join(' ') };
    return [all('en', 'cardinal', [0, 1, 2, 1.5]), all('en', 'ordinal', [1, 2, 3, 4, 11, 21, 112]), all('ru',
      'cardinal', [1, 2, 5, 11, 21, 1.5]),
      all('fr', 'cardinal', [0, 1.5, 2, 1000000]), all('ja', 'cardinal', [1]), all('pl', 'cardinal', [1, 2, 5, 22]),
        all('pt-PT', 'cardinal', [0, 1])]
    """
    assert run(code) == [
        *[
            "other one other other",
            "one two few other other one other",
            "one few many many one other",
            "one one other many",
            "other",
        ],
        *["one few many few", "other one"],
    ]


def test_relative_times_and_lists(run):
    code = """
    const r = (l, v, u, o) => new Intl.RelativeTimeFormat(l, o).format(v, u), li = (l, a, o) => new Intl.ListFormat(l,
      o).format(a);
    return [r('en', -1, 'day', {numeric: 'auto'}), r('en', -1, 'days'), r('de', 3, 'week'), r('ru', 5, 'hours'), r('en',
      2.5, 'month', {style: 'short'}),
      li('en', ['a', 'b', 'c']), li('de', ['a', 'b']), li('en', ['a', 'b', 'c'], {type: 'disjunction'}), li('es',
        ['Ana', 'Inés']), li('en', [])]
    """
    expected = ["yesterday", "1 day ago", "in 3 Wochen", "через 5 часов", "in 2.5 mo."]
    expected += ["a, b, and c", "a und b", "a, b, or c", "Ana e Inés", ""]
    assert run(code) == expected


def test_collation(run):
    code = """
    const sorted = (list, o) => [...list].sort(new Intl.Collator('en', o).compare).join(' ');
    return [sorted(['b', 'a', 'C', 'A', 'ä', 'B']), sorted(['a10', 'a9', 'a1'], {numeric: true}),
      new Intl.Collator('en', {sensitivity: 'base'}).compare('É', 'e'),
      new Intl.Collator('en', {sensitivity: 'accent'}).compare('É', 'e'), typeof 'a'.localeCompare('b')]
    """
    assert run(code) == ["a A ä b B C", "a1 a9 a10", 0, 1, "number"]


def test_locales_are_negotiated(run):
    code = """
    const l = x => new Intl.NumberFormat(x).resolvedOptions().locale;
    return [l(), l('de-DE'), l('de-XX'), l(['xx', 'fr']), l('EN-gb'), l('zh-TW'),
      Intl.NumberFormat.supportedLocalesOf(['en', 'xx', 'de-AT']),
      Intl.getCanonicalLocales(['EN-us', 'zh-hant-tw']), new Intl.Locale('zh-Hant-TW').region,
        Intl.DateTimeFormat().resolvedOptions().timeZone,
      new Intl.DateTimeFormat('en-u-hc-h23', {hour: 'numeric'}).resolvedOptions().hourCycle,
        new Intl.DateTimeFormat('en', {timeZone: 'asia/tokyo'}).resolvedOptions().timeZone]
    """
    assert run(code) == [
        *[
            "en-US",
            "de-DE",
            "de",
            "fr",
            "en-GB",
            "zh-TW",
            ["en", "de-AT"],
            ["en-US", "zh-Hant-TW"],
            "TW",
            "UTC",
            "h23",
            "Asia/Tokyo",
        ],
    ]


REFUSED = [
    "new Intl.NumberFormat('en', {style: 'currency'})",
    "new Intl.PluralRules('not a tag')",
    "new Intl.NumberFormat('en', {style: 'unit', unit: 'parsec'})",
    "new Intl.NumberFormat('en', {maximumFractionDigits: 101})",
    "new Intl.NumberFormat('en', {minimumFractionDigits: 3, maximumFractionDigits: 2})",
    "new Intl.NumberFormat('en', {roundingIncrement: 3})",
    "new Intl.DateTimeFormat('en', {timeZone: 'Mars/Olympus'})",
    "new Intl.DateTimeFormat('en', {timeZone: '__proto__'})",
    "new Intl.DateTimeFormat('en', {dateStyle: 'full', hour: 'numeric'})",
    "new Date().toLocaleDateString('en', {timeStyle: 'short'})",
    "new Intl.DateTimeFormat('en').format(NaN)",
    "new Intl.RelativeTimeFormat('en').format(1, 'fortnight')",
    "new Intl.ListFormat('en').format([1])",
    "Intl.PluralRules('en')",
    "Intl.supportedValuesOf('nothing')",
]


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_refused(run, code):
    assert (
        run(f"try {{ {code}; return 'made' }} catch (e) {{ return ['RangeError', 'TypeError'].includes(e.name) }}")
        is True
    )


def test_the_limits_allow_what_is_at_them(run):
    code = """
    return [new Intl.NumberFormat('en', {maximumFractionDigits: 100}).format(0.5), new Intl.NumberFormat('en',
      {roundingIncrement: 5, maximumFractionDigits: 0}).format(7),
      new Date(0).toLocaleDateString('en', {dateStyle: 'short'})]
    """
    assert run(code) == ["0.5", "5", "1/1/70"]


def test_every_locale_with_data_can_write_everything(run):
    """A part that is missing in the data of one locale must not wait for a user of it."""
    code = """
    const locales = ['en', 'en-AU', 'en-CA', 'en-GB', 'en-IN', 'en-ZA', 'de', 'de-AT', 'de-CH', 'fr', 'fr-CA', 'fr-CH',
      'es', 'es-AR', 'es-MX', 'it', 'pt', 'pt-PT',
      'nl', 'ca', 'sv', 'da', 'nb', 'fi', 'is', 'et', 'lv', 'lt', 'pl', 'cs', 'sk', 'sl', 'hr', 'hu', 'ro', 'bg', 'el',
        'tr', 'ru', 'uk', 'he', 'ja', 'ko', 'zh', 'zh-TW',
      'zh-HK', 'id', 'ms', 'vi', 'hi'];
    const bad = [];
    for (const l of locales) {
      const texts = [];
      for (const notation of ['compact', 'scientific']) for (const style of ['decimal',
        'percent']) texts.push((123456).toLocaleString(l, {notation, style}));
      for (const currencyDisplay of ['code', 'symbol', 'narrowSymbol', 'name']) texts.push((1).toLocaleString(l,
        {style: 'currency', currency: 'USD', currencyDisplay}));
      for (const unitDisplay of ['long', 'short',
        'narrow']) for (const unit of Intl.supportedValuesOf('unit')) texts.push((2).toLocaleString(l, {style: 'unit',
        unit, unitDisplay}));
      for (const s of ['full', 'long', 'medium', 'short']) texts.push(new Date(0).toLocaleString(l, {dateStyle: s,
        timeStyle: s, timeZone: 'Europe/Berlin'}));
      for (const month of ['long', 'short', 'narrow']) texts.push(new Date(0).toLocaleString(l, {era: month,
        weekday: month, year: 'numeric', month, day: 'numeric'}));
      for (const u of ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter',
        'year']) for (const style of ['long', 'short', 'narrow']) texts.push(new Intl.RelativeTimeFormat(l,
        {style}).format(-2, u));
      for (const type of ['conjunction', 'disjunction', 'unit']) texts.push(new Intl.ListFormat(l, {type}).format(['x',
        'y', 'z']));
      for (const t of texts) if (/undefined|NaN|null|[{}¤]/.test(t) || t === '') bad.push([l, t]);
    }
    return bad
    """
    assert run(code) == []


def test_formats_do_not_see_what_the_guest_does_to_its_objects(run):
    """Options are read once; a format keeps its own."""
    code = """
    const o = {style: 'percent'}, f = new Intl.NumberFormat('en', o); o.style = 'decimal'; return [f.format(0.5),
      f.resolvedOptions().style]
    """
    assert run(code) == ["50%", "percent"]
