// The IANA time zone database from 1970 on, out of moment-timezone's packed form ("name|abbreviations|offsets|indices|times",
// numbers in base 60, offsets as minutes west) into one line per zone: "offsets|indices|times", offsets in minutes east,
// the indices as digits of base 36, times in base 36 as minutes since the one before.
import type { Json } from "./locale.ts";

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

export function zone(packed: string): [string, string] {
  const [name, names, westward, indices, differences = ""] = packed.split("|");
  const east = westward.split(" ").map((o) => -Math.round(base60(o) * 60) / 60);
  const abbreviations = names.split(" ");
  const states = [...indices].map((c) => base60(c));
  let at = 0;
  const times = differences.split(" ").filter((d) => d !== "").map((d) => at += Math.round(base60(d)));
  let first = 0;
  while (first < times.length && times[first] <= 0) first++;
  // Only what can be asked for: the offset and whether it is daylight time (told by the abbreviation of its pair).
  const kept: string[] = [];
  const index = (state: number) => {
    const key = `${Math.round(east[state])}${isDaylight(abbreviations, east, state) ? "d" : ""}`;
    if (!kept.includes(key)) kept.push(key);
    return kept.indexOf(key).toString(36);
  };
  const line = [states[first], ...states.slice(first + 1)].map(index).join("");
  const later = times.slice(first);
  return [name, `${kept.join(" ")}|${line}|${later.map((t, i) => (t - (i ? later[i - 1] : 0)).toString(36)).join(" ")}`];
}

/** Whether a state is summer time: its letters say so, else another state of the zone has the same letters with one hour less. */
function isDaylight(names: string[], east: number[], state: number): boolean {
  const name = names[state];
  if (/^[A-Z]+$/.test(name)) return /^(.*(DT|DDT)|BST|CEST|EEST|WEST|IST|MSD|NZDT|HKST|KDT|JDT|.*ST)$/.test(name) && daylightLetters(name, east[state]);
  return false; // "+03": CLDR has names for few of them, and those do not change
}

function daylightLetters(name: string, east: number): boolean {
  if (/DT$|DDT$|EST$/.test(name) && /^[CEW]EST$/.test(name)) return true;
  if (name === "BST" || name === "MSD" || name === "HKST") return true;
  if (name === "IST") return east === 60; // Irish summer; India and Israel are standard
  return /D[DT]?T$/.test(name);
}

export function zones(packed: Json, metazones: Json): Json {
  const rules: Json = {}, alias: Json = {}, meta: Json = {};
  for (const text of packed.zones) {
    const [name, line] = zone(text);
    rules[name] = line;
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
  return { rules, alias, meta };
}
