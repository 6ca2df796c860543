// The IANA time zone database from 1970 on, out of moment-timezone's packed form ("name|abbreviations|offsets|indices|times":
// numbers in base 60, offsets in minutes west, each time in minutes since the one before). What comes out, per zone:
// "unit|offsets|states|times": offsets in minutes east, with "d" for daylight time; one digit of base 36 per period, an index
// into the offsets; the moments between periods, in units of `unit` minutes since the one before, as three digits of base 36,
// or "~" and six where three do not suffice.
import type { Json } from "./locale.ts";

/** Minutes since 1970 at the end of 2099, as far as the data goes. */
const END = Date.UTC(2100, 0, 1) / 60000;

interface Period {
  until: number; // minutes since 1970
  east: number;
  letters: string;
}

function base60(text: string): number {
  const sign = text.startsWith("-") ? -1 : 1;
  const [whole, part = ""] = (sign < 0 ? text.slice(1) : text).split(".");
  const digit = (c: string) => {
    const code = c.charCodeAt(0);
    return code > 96 ? code - 87 : code > 64 ? code - 29 : code - 48;
  };
  let value = 0, unit = 1;
  for (const c of whole) value = value * 60 + digit(c);
  for (const c of part) value += digit(c) * (unit /= 60);
  return sign * value;
}

function periods(packed: string): Period[] {
  const [, names, westward, indices, differences = ""] = packed.split("|");
  const east = westward.split(" ").map((o) => -Math.round(base60(o)));
  const letters = names.split(" ");
  let at = 0;
  const until = differences.split(" ").filter((d) => d !== "").map((d) => at += Math.round(base60(d)));
  const all = [...indices].map((c, i) => ({ until: until[i] ?? Infinity, east: east[base60(c)], letters: letters[base60(c)] }));
  const last = all.findIndex((p) => p.until >= END);
  return all.slice(0, last + 1).filter((p) => p.until > 0);
}

const YEAR = 365 * 24 * 60;

/** Summer time by its letters, and where it has none ("-03") by being the shorter part of the year and ahead of its neighbours. */
function isDaylight(all: Period[], i: number): boolean {
  const { letters, east, until } = all[i];
  if (letters === "BST" || letters === "IST") return east === 60;
  if (/^[A-Z]/.test(letters)) return /DT$|^[CEW]E?ST$|^MSD$|^HKST$/.test(letters) && !(letters === "CST" || letters === "EST");
  if (i === 0 || i + 1 === all.length) return false;
  return until - all[i - 1].until < YEAR * 0.85 && all[i - 1].east < east && all[i + 1].east < east;
}

function line(all: Period[]): string {
  const offsets: string[] = [];
  const states = all.map((p, i) => {
    const key = `${p.east}${isDaylight(all, i) ? "d" : ""}`;
    if (!offsets.includes(key)) offsets.push(key);
    return offsets.indexOf(key).toString(36);
  });
  const times = all.slice(0, -1).map((p, i) => p.until - (i ? all[i - 1].until : 0));
  const unit = times.every((t) => t % 30 === 0) ? 30 : 1;
  const text = times.map((t) => {
    const digits = (t / unit).toString(36);
    return digits.length > 3 ? "~" + digits.padStart(6, "0") : digits.padStart(3, "0");
  });
  return `${unit}|${offsets.join(" ")}|${states.join("")}|${text.join("")}`;
}

export function zones(packed: Json, metazones: Json): Json {
  const lines: string[] = [], zone: Json = {}, alias: Json = {}, meta: Json = {};
  for (const text of packed.zones) {
    const made = line(periods(text));
    if (!lines.includes(made)) lines.push(made);
    zone[text.split("|")[0]] = lines.indexOf(made);
  }
  for (const text of packed.links) {
    const [target, name] = text.split("|");
    alias[name] = target;
  }
  const walk = (tree: Json, path: string) => {
    if (Array.isArray(tree)) {
      const last = tree.at(-1).usesMetazone;
      if (last && !last._to) meta[path] = last._mzone;
    } else {
      for (const key in tree) walk(tree[key], path ? `${path}/${key}` : key);
    }
  };
  walk(metazones, "");
  for (const name in meta) if (alias[name] && !meta[alias[name]]) meta[alias[name]] = meta[name]; // CLDR keeps old names
  return { lines, zone, alias, meta };
}
