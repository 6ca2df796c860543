// One locale of the CLDR as a small object. The formatters in ../60_intl_*.js read it.
import { CURRENCIES, METAZONES, UNITS } from "./choice.ts";

// deno-lint-ignore no-explicit-any
export type Json = any;
export type Read = (path: string) => Promise<Json>;

const WIDTHS = ["wide", "abbreviated", "narrow"] as const;

/** `{"x-count-one": a}` to `{one: a}` for keys that begin with `prefix`. */
function counts(from: Json, prefix: string): Json {
  const to: Json = {};
  for (const key in from) if (key.startsWith(prefix + "-count-")) to[key.slice(prefix.length + 7)] = from[key];
  return to;
}

function numbers(n: Json): Json {
  const of = (kind: string) => n[`${kind}-numberSystem-latn`];
  const symbols = of("symbols"), money = of("currencyFormats"), decimals = of("decimalFormats");
  const compact = (formats: Json) => {
    const to: Json = {};
    for (const key in formats) {
      const [power, , plural] = key.split("-");
      if (/^10+$/.test(power) && plural !== undefined && !key.includes("alpha")) (to[power.length - 1] ??= {})[plural] = formats[key];
    }
    return to;
  };
  return {
    symbols: {
      decimal: symbols.decimal,
      group: symbols.group,
      percent: symbols.percentSign,
      plus: symbols.plusSign,
      minus: symbols.minusSign,
      exponent: symbols.exponential,
      infinity: symbols.infinity,
      nan: symbols.nan,
      approximately: symbols.approximatelySign,
      currencyDecimal: symbols["decimal-alt-currency"] ?? symbols.currencyDecimal ?? symbols.decimal,
      currencyGroup: symbols.currencyGroup ?? symbols.group,
    },
    minimumGrouping: +n.minimumGroupingDigits,
    decimal: decimals.standard,
    percent: of("percentFormats").standard,
    currency: money.standard,
    currencyAlpha: money["standard-alphaNextToNumber"] ?? money.standard,
    accounting: money.accounting,
    accountingAlpha: money["accounting-alphaNextToNumber"] ?? money.accounting,
    named: counts(money, "unitPattern"),
    range: of("miscPatterns").range,
    compact: {
      short: compact(decimals.short.decimalFormat),
      long: compact(decimals.long.decimalFormat),
      currency: compact(money.short.standard),
    },
  };
}

function currencies(all: Json): Json {
  const to: Json = {};
  for (const code of CURRENCIES) {
    const c = all[code] ?? {};
    to[code] = { symbol: c.symbol ?? code, narrow: c["symbol-alt-narrow"] ?? c.symbol ?? code, name: counts(c, "displayName") };
  }
  return to;
}

function units(all: Json): Json {
  const to: Json = {};
  for (const width of ["long", "short", "narrow"]) {
    const of: Json = to[width] = { per: all[width].per.compoundUnitPattern };
    for (const unit of UNITS) {
      const from = all[width][unit];
      if (from === undefined) continue;
      const name = unit.replace(/^[a-z]+-/, "");
      of[name] = counts(from, "unitPattern");
      if (from.perUnitPattern) of[name].per = from.perUnitPattern;
    }
  }
  return to;
}

const inOrder = (names: Json, keys: string[]) => keys.map((key) => names[key]);
const MONTHS = Array.from({ length: 12 }, (_, i) => `${i + 1}`);
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const STYLES = ["full", "long", "medium", "short"];

const APPEND = { G: ["Era", "era"], y: ["Year", "year"], M: ["Month", "month"], E: ["Day-Of-Week", "weekday"], d: ["Day", "day"], v: ["Timezone", "zone"] };

function calendar(g: Json, fields: Json): Json {
  const names = (from: Json, keys: string[]) => ({
    format: WIDTHS.map((w) => inOrder(from.format[w], keys)),
    alone: WIDTHS.map((w) => inOrder(from["stand-alone"][w], keys)),
  });
  const available: Json = {};
  for (const [skeleton, pattern] of Object.entries(g.dateTimeFormats.availableFormats)) {
    if (!/-|[BQwWec]/.test(skeleton)) available[skeleton] = pattern;
  }
  // How a field is added that no pattern has: '{0} ({2}: {1})', with the field's name for {2}.
  const append: Json = {};
  for (const [letter, [item, field]] of Object.entries(APPEND)) {
    append[letter] = g.dateTimeFormats.appendItems[item].replace("{2}", () => `'${fields[field].displayName.replaceAll("'", "''")}'`);
  }
  return {
    months: names(g.months, MONTHS),
    days: names(g.days, DAYS),
    periods: WIDTHS.map((w) => inOrder(g.dayPeriods.format[w], ["am", "pm"])),
    eras: ["eraNames", "eraAbbr", "eraNarrow"].map((w) => inOrder(g.eras[w], ["0", "1"])),
    date: inOrder(g.dateFormats, STYLES),
    time: inOrder(g.timeFormats, STYLES),
    at: inOrder(g["dateTimeFormats-atTime"].standard, STYLES),
    interval: g.dateTimeFormats.intervalFormats.intervalFormatFallback,
    append,
    available,
  };
}

function zones(z: Json): Json {
  const names: Json = {};
  const pair = (from: Json) => from && [from.standard ?? "", from.daylight ?? "", from.generic ?? ""];
  for (const name of METAZONES) {
    const from = z.metazone?.[name];
    if (from) names[name] = { long: pair(from.long), short: pair(from.short) };
  }
  const utc = z.zone?.Etc?.UTC ?? {};
  names.UTC = { long: pair(utc.long), short: pair(utc.short) };
  const own = { "Europe/London": z.zone?.Europe?.London, "Europe/Dublin": z.zone?.Europe?.Dublin, "Pacific/Honolulu": z.zone?.Pacific?.Honolulu };
  for (const [name, from] of Object.entries(own)) if (from) names[name] = { long: pair(from.long), short: pair(from.short) };
  return { gmt: z.gmtFormat, zero: z.gmtZeroFormat, hour: z.hourFormat, names };
}

function relative(fields: Json): Json {
  const to: Json = {};
  for (const unit of ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]) {
    for (const width of ["", "-short", "-narrow"]) {
      const from = fields[unit + width], of: Json = to[unit + width] = {
        future: counts(from["relativeTime-type-future"], "relativeTimePattern"),
        past: counts(from["relativeTime-type-past"], "relativeTimePattern"),
      };
      for (const key in from) if (key.startsWith("relative-type-")) of[key.slice(14)] = from[key];
    }
  }
  return to;
}

function lists(all: Json): Json {
  const to: Json = {};
  for (const [type, name] of [["conjunction", "standard"], ["disjunction", "or"], ["unit", "unit"]]) {
    for (const width of ["", "-short", "-narrow"]) {
      const p = all[`listPattern-type-${name}${width}`];
      to[type + (width || "-long")] = [p["2"], p.start, p.middle, p.end];
    }
  }
  return to;
}

export async function locale(read: Read, name: string): Promise<Json> {
  const of = async (pack: string, file: string) => (await read(`cldr-${pack}-full/main/${name}/${file}.json`)).main[name];
  const n = (await of("numbers", "numbers")).numbers;
  const fields = (await of("dates", "dateFields")).dates.fields;
  if (n.defaultNumberingSystem !== "latn") throw new Error(`${name} does not write 0 to 9 by default`);
  return {
    number: numbers(n),
    currencies: currencies((await of("numbers", "currencies")).numbers.currencies),
    units: units((await of("units", "units")).units),
    calendar: calendar((await of("dates", "ca-gregorian")).dates.calendars.gregorian, fields),
    zones: zones((await of("dates", "timeZoneNames")).dates.timeZoneNames),
    relative: relative(fields),
    lists: lists((await of("misc", "listPatterns")).listPatterns),
  };
}
