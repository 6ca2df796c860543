// Prints the locale and time zone data of the guest as one JSON object. Every big part is JSON text itself, so that in the guest
// it is one string until somebody asks for it.
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

const rule = (text: string) => text.split("@")[0].trim();

function plurals(all: Json, languages: Set<string>): Json {
  const to: Json = {};
  for (const language of languages) {
    const from = all[language];
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
  data[name] = Object.fromEntries(Object.entries(own).map(([part, value]) => [part, JSON.stringify(value)]));
}
const regions = (await read("cldr-core/availableLocales.json")).availableLocales.full
  .filter((name: string) => languages.has(name.split("-")[0]));
const likely = (await core("likelySubtags")).likelySubtags;
const digits: Json = {}, fractions = (await core("currencyData")).currencyData.fractions;
for (const code in fractions) if (fractions[code]._digits !== fractions.DEFAULT._digits) digits[code] = +fractions[code]._digits;
const hours: Json = {}, times = (await core("timeData")).timeData;
for (const key in times) if (/^([A-Z0-9]+|[a-z]{2,3}(-[A-Z0-9]+)?)$/.test(key.replace("_", "-"))) hours[key.replace("_", "-")] = times[key]._preferred;

const packed = await read("moment-timezone/data/packed/latest.json");
console.log(JSON.stringify({
  data,
  parents,
  regions: regions.join(" "),
  likely: Object.fromEntries([...languages].map((l) => [l, likely[l].split("-").at(-1)])),
  cardinal: JSON.stringify(plurals((await core("plurals"))["plurals-type-cardinal"], languages)),
  ordinal: JSON.stringify(plurals((await core("ordinals"))["plurals-type-ordinal"], languages)),
  digits: JSON.stringify(digits),
  hours: JSON.stringify(hours),
  zones: JSON.stringify(zones(packed, (await core("metaZones")).metaZones.metazoneInfo.timezone)),
  zonesVersion: packed.version,
}));
