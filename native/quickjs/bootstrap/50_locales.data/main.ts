// Prints the locale and time zone data of the guest: a JSON array on each line, the path of a part and the part. Every big part is
// JSON text itself, so that in the guest it is one string until somebody asks for it.
import { LOCALES } from "./choice.ts";
import { type Json, locale } from "./locale.ts";
import { zones } from "./zones.ts";

const read = async (path: string): Promise<Json> => (await import(path, { with: { type: "json" } })).default;
const core = async (name: string) => (await read(`cldr-core/supplemental/${name}.json`)).supplemental;

/** What `child` changes in `parent`; null where it has nothing. */
function difference(parent: Json, child: Json): Json {
  const to: Json = {};
  for (const key of new Set([...Object.keys(parent), ...Object.keys(child)])) {
    const a = parent[key], b = child[key];
    if (JSON.stringify(a) === JSON.stringify(b)) continue;
    if (b === undefined) to[key] = null;
    else if (a && typeof a === "object" && typeof b === "object" && !Array.isArray(b)) to[key] = difference(a, b);
    else to[key] = b;
  }
  return to;
}

/** The engine keeps a string in one byte a character only when all are below 256: escapes where that makes it smaller. */
function compact(json: string): string {
  // deno-lint-ignore no-control-regex
  const wide = json.match(/[^\x00-\xff]/g)?.length ?? 0;
  return wide * 5 > json.length ? json : json.replace(/[^\x00-\xff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

const rule = (text: string) => text.split("@")[0].trim();

function plurals(all: Json, languages: Set<string>): Json {
  const to: Json = {};
  for (const language of [...languages, "pt-PT"]) {
    const from = all[language];
    if (from === undefined) continue;
    to[language] = {};
    for (const key in from) to[language][key.slice("pluralRule-count-".length)] = rule(from[key]);
  }
  return to;
}

const parentsOf = (await core("parentLocales")).parentLocales.parentLocale;
const languages = new Set(LOCALES.map((name) => name.split("-")[0]));
const parent = (name: string): string | null => {
  const found = parentsOf[name] ?? (name.includes("-") ? name.slice(0, name.lastIndexOf("-")) : null);
  return found === "root" ? null : found;
};
const parents: Json = {};
for (const name in parentsOf) if (languages.has(name.split("-")[0])) parents[name] = parent(name);

const whole: Json = {}, data: Json = {};
for (const name of LOCALES) {
  whole[name] = await locale(read, name);
  let base = parent(name);
  while (base !== null && !LOCALES.includes(base)) base = parent(base);
  const own = base === null ? whole[name] : difference(whole[base], whole[name]);
  // Parts are read one by one: a number format needs no month names.
  data[name] = Object.fromEntries(Object.entries(own).map(([part, value]) => [part, compact(JSON.stringify(value))]));
}
const regions = (await read("cldr-core/availableLocales.json")).availableLocales.full
  .filter((name: string) => languages.has(name.split("-")[0]));
const likely = (await core("likelySubtags")).likelySubtags;
const digits: Json = {}, fractions = (await core("currencyData")).currencyData.fractions;
for (const code in fractions) if (fractions[code]._digits !== fractions.DEFAULT._digits) digits[code] = +fractions[code]._digits;
const hours: Json = {}, times = (await core("timeData")).timeData;
for (const key in times) if (/^([A-Z0-9]+|[a-z]{2,3}(-[A-Z0-9]+)?)$/.test(key.replace("_", "-"))) hours[key.replace("_", "-")] = times[key]._preferred;

const zone = zones(await read("moment-timezone/data/packed/latest.json"), (await core("metaZones")).metaZones.metazoneInfo.timezone);
const parts: Json = {
  parents,
  regions: regions.join(" "),
  likely: Object.fromEntries([...languages].map((l) => [l, likely[l].split("-").at(-1)])),
  cardinal: JSON.stringify(plurals((await core("plurals"))["plurals-type-cardinal"], languages)),
  ordinal: JSON.stringify(plurals((await core("ordinals"))["plurals-type-ordinal"], languages)),
  digits: JSON.stringify(digits),
  hours: JSON.stringify(hours),
  zones: JSON.stringify(zone),
};
for (const name in parts) console.log(JSON.stringify([name, parts[name]]));
for (const name in data) console.log(JSON.stringify(["data", name, data[name]]));
