// Time zones: from a name and a moment to the offset and the zone's name. The data is the IANA database from 1970 on; years from
// 2100 on are taken as the one 28 or 56... years before, which has the same days of the week until then.
(native, primordials) => {
  'use strict';
  const { intl } = primordials;
  const MINUTE = 60000, END = Date.UTC(2100, 0, 1), CYCLE = 28 * 365.25 * 24 * 60 * MINUTE;

  const unpacked = new Map();
  const unpack = (line) => {
    const [unit, offsets, states, times] = line.split('|');
    const east = offsets.split(' ').map((o) => ({ __proto__: null, minutes: parseInt(o, 10), daylight: o.endsWith('d') }));
    const until = [];
    for (let i = 0, at = 0; i < times.length;) {
      const digits = times[i] === '~' ? times.slice(i + 1, i += 7) : times.slice(i, i += 3);
      until.push((at += parseInt(digits, 36)) * unit * MINUTE);
    }
    return { __proto__: null, until, periods: [...states].map((c) => east[parseInt(c, 36)]) };
  };
  const rulesOf = (name) => {
    if (!unpacked.has(name)) unpacked.set(name, unpack(intl.table('zones').lines[intl.table('zones').zone[name]]));
    return unpacked.get(name);
  };

  const byLowerCase = () => {
    const { zone, alias } = intl.table('zones'), to = new Map();
    for (const name in zone) to.set(name.toLowerCase(), name);
    for (const name in alias) to.set(name.toLowerCase(), name);
    return to;
  };
  let names = null;
  const UTC = /^(etc\/)?(utc|gmt|uct|zulu|universal|greenwich|gmt[+-]?0)$/i;

  // {id: what is answered, rules: the name of its rules or null, fixed: minutes east}; throws for an unknown one.
  const found = new Map();
  intl.zone = (given) => {
    const text = '' + given;
    let z = found.get(text);
    if (z === undefined) {
      z = find(text);
      if (found.size < 100) found.set(text, z);
    }
    return z;
  };
  const find = (text) => {
    const offset = /^([+-])(\d\d)(?::?(\d\d))?$/.exec(text);
    if (offset !== null && +offset[2] < 24 && +(offset[3] ?? 0) < 60) {
      const minutes = (offset[1] === '-' ? -1 : 1) * (+offset[2] * 60 + +(offset[3] ?? 0));
      const sign = minutes < 0 ? '-' : '+';
      return { __proto__: null, id: `${sign}${offset[2]}:${offset[3] ?? '00'}`, rules: null, fixed: { __proto__: null, minutes, daylight: false }, key: null };
    }
    if (UTC.test(text)) return { __proto__: null, id: 'UTC', rules: null, fixed: { __proto__: null, minutes: 0, daylight: false }, key: 'UTC' };
    const { zone, alias, meta } = intl.table('zones');
    let id = text;
    if (!Object.hasOwn(zone, id) && !Object.hasOwn(alias, id)) id = (names ??= byLowerCase()).get(text.toLowerCase());
    if (id === undefined) throw new RangeError(`Invalid time zone specified: ${text}`);
    const rules = zone[id] === undefined ? alias[id] : id;
    return { __proto__: null, id, rules, fixed: null, key: meta[id] ?? meta[rules] ?? null };
  };

  // The period at that moment: {minutes, daylight}.
  intl.periodAt = (zone, ms) => {
    if (zone.fixed !== null) return zone.fixed;
    const { until, periods } = rulesOf(zone.rules);
    if (ms >= END) ms -= Math.ceil((ms - END + 1) / CYCLE) * CYCLE;
    let low = 0, high = until.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ms < until[middle]) high = middle;
      else low = middle + 1;
    }
    return periods[low];
  };
  intl.zoneNames = () => {
    const { zone } = intl.table('zones');
    return Object.keys(zone).filter((name) => name.includes('/') && !name.startsWith('Etc/')).sort();
  };

  const two = (n) => (n < 10 ? '0' : '') + n;
  const gmt = (data, minutes, long) => {
    if (minutes === 0) return data.zero;
    const n = Math.abs(minutes), hours = Math.floor(n / 60), rest = n % 60;
    const [plus, minus] = data.hour.split(';');
    const pattern = minutes < 0 ? minus : plus;
    const text = long ? pattern.replace(/H+/, two(hours)).replace('mm', two(rest))
      : rest ? pattern.replace(/H+/, '' + hours).replace('mm', two(rest)) : pattern.replace(/H+.mm/, '' + hours);
    return data.gmt.replace('{0}', text);
  };

  // A zone's name as `timeZoneName` asks: short, long, shortOffset, longOffset, shortGeneric or longGeneric.
  intl.zoneText = (locale, zone, ms, style) => {
    const data = intl.part(locale.data, 'zones'), period = intl.periodAt(zone, ms), long = style.startsWith('long');
    if (style.endsWith('Offset')) return gmt(data, period.minutes, long);
    const width = long ? 'long' : 'short', column = style.endsWith('Generic') ? 2 : period.daylight ? 1 : 0;
    const own = data.names[zone.id]?.[width]?.[column];
    if (own) return own;
    const name = zone.key === null ? undefined : data.names[zone.key]?.[width];
    return name?.[column] || (column === 2 && name?.[0] && !name[1] ? name[0] : '') || gmt(data, period.minutes, long);
  };
}
