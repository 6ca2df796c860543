// Intl.DateTimeFormat with the Gregorian calendar: https://tc39.es/ecma402/#datetimeformat-objects
(native, primordials) => {
  'use strict';
  const { intl } = primordials;
  const { option, integer } = intl;
  const { now } = native;
  const STYLES = ['full', 'long', 'medium', 'short'], TEXT = ['narrow', 'short', 'long'], NUMBER = ['2-digit', 'numeric'];
  const FIELDS = [
    ['weekday', TEXT, 'E', { narrow: 5, short: 3, long: 4 }],
    ['era', TEXT, 'G', { narrow: 5, short: 3, long: 4 }],
    ['year', NUMBER, 'y', { '2-digit': 2, numeric: 1 }],
    ['month', [...NUMBER, ...TEXT], 'M', { '2-digit': 2, numeric: 1, narrow: 5, short: 3, long: 4 }],
    ['day', NUMBER, 'd', { '2-digit': 2, numeric: 1 }],
    ['hour', NUMBER, 'h', { '2-digit': 2, numeric: 1 }],
    ['minute', NUMBER, 'm', { '2-digit': 2, numeric: 1 }],
    ['second', NUMBER, 's', { '2-digit': 2, numeric: 1 }],
  ];
  const ZONES = ['short', 'long', 'shortOffset', 'longOffset', 'shortGeneric', 'longGeneric'];
  const CYCLES = ['h11', 'h12', 'h23', 'h24'];
  const LETTER = { __proto__: null, h11: 'K', h12: 'h', h23: 'H', h24: 'k' };

  const cycleOf = (locale, bag) => {
    const hour12 = option(bag, 'hour12', 'boolean', undefined, undefined);
    let cycle = option(bag, 'hourCycle', 'string', CYCLES, undefined);
    const table = intl.table('hours');
    const preferred = table[`${locale.language}-${locale.region}`] ?? table[locale.region] ?? 'H';
    const twelve = preferred === 'K' || locale.region === 'JP' ? 'h11' : 'h12', own = preferred === 'h' ? 'h12' : preferred === 'K' ? 'h11' : 'h23';
    if (hour12 !== undefined) return hour12 ? twelve : 'h23';
    if (cycle === undefined && CYCLES.includes(locale.extension.hc)) cycle = locale.extension.hc;
    return cycle ?? own;
  };

  // What `required` and `defaults` are: https://tc39.es/ecma402/#sec-createdatetimeformat
  const settings = (locales, bag, required, defaults) => {
    const locale = intl.resolve(locales), s = { __proto__: null, locale, asked: { __proto__: null } };
    option(bag, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit');
    const calendar = option(bag, 'calendar', 'string', undefined, undefined);
    if (calendar !== undefined && !/^[a-z\d]{3,8}(-[a-z\d]{3,8})*$/i.test(calendar)) throw new RangeError(`Invalid calendar : ${calendar}`);
    s.cycle = cycleOf(locale, bag);
    s.zone = bag.timeZone === undefined ? intl.zone('UTC') : intl.zone(bag.timeZone);
    const widths = { __proto__: null };
    let given = false;
    for (const [name, allowed, letter, lengths] of FIELDS) {
      const value = option(bag, name, 'string', allowed, undefined);
      if (value === undefined) continue;
      s.asked[name] = value;
      widths[letter] = lengths[value];
      given = true;
    }
    s.period = option(bag, 'dayPeriod', 'string', TEXT, undefined);
    s.fraction = integer(bag, 'fractionalSecondDigits', 1, 3, undefined);
    s.zoneName = option(bag, 'timeZoneName', 'string', ZONES, undefined);
    option(bag, 'formatMatcher', 'string', ['basic', 'best fit'], 'best fit');
    s.dateStyle = option(bag, 'dateStyle', 'string', STYLES, undefined);
    s.timeStyle = option(bag, 'timeStyle', 'string', STYLES, undefined);
    s.data = intl.part(locale.data, 'calendar');
    if (s.dateStyle !== undefined || s.timeStyle !== undefined) {
      if (given || s.fraction !== undefined || s.zoneName !== undefined || s.period !== undefined) {
        throw new TypeError(`Can't set option ${Object.keys(s.asked)[0] ?? 'timeZoneName'} when ${s.dateStyle !== undefined ? 'dateStyle' : 'timeStyle'} is used`);
      }
      if ((required === 'date' && s.timeStyle !== undefined) || (required === 'time' && s.dateStyle !== undefined)) {
        throw new TypeError(`Invalid option : ${required === 'date' ? 'timeStyle' : 'dateStyle'}`);
      }
      s.pattern = styled(s);
      return s;
    }
    addDefaults(s, widths, required, defaults);
    s.pattern = patternOf(s, widths);
    return s;
  };
  const addDefaults = (s, widths, required, defaults) => {
    const { asked } = s;
    const date = asked.weekday ?? asked.year ?? asked.month ?? asked.day, time = s.period ?? asked.hour ?? asked.minute ?? asked.second ?? s.fraction;
    const needed = (required === 'date' ? date : required === 'time' ? time : date ?? time) === undefined;
    if (!needed) return;
    const add = (letter, name) => {
      widths[letter] = 1;
      asked[name] = 'numeric';
    };
    if (defaults !== 'time') {
      add('y', 'year');
      add('M', 'month');
      add('d', 'day');
    }
    if (defaults !== 'date') {
      add('h', 'hour');
      add('m', 'minute');
      add('s', 'second');
    }
  };

  const decimalOf = (s) => intl.part(s.locale.data, 'number').symbols.decimal;
  const inCycle = (s, pattern) => {
    let out = '';
    const letter = LETTER[s.cycle];
    for (const t of intl.tokens(pattern)) {
      if (t.letter === undefined) out += /[A-Za-z']/.test(t.text) ? `'${t.text.replace(/'/g, "''")}'` : t.text;
      else out += (/[hHkK]/.test(t.letter) ? letter : t.letter).repeat(t.length);
    }
    return out;
  };
  const is12 = (cycle) => cycle === 'h11' || cycle === 'h12';

  const patternOf = (s, widths) => {
    const fields = { __proto__: null, ...widths };
    if (fields.h !== undefined && !is12(s.cycle)) {
      fields.H = fields.h;
      delete fields.h;
    }
    if (s.zoneName !== undefined) fields.v = s.zoneName.startsWith('long') ? 4 : 1; // a generic name has no pattern of its own either
    if (s.fraction !== undefined && fields.s === undefined) {
      if (fields.m === undefined && Object.keys(fields).length === 0) return 'S'.repeat(s.fraction);
      fields.s = 1;
    }
    return inCycle(s, intl.pattern(s.locale.data, s.data, fields, s.fraction, decimalOf(s)));
  };

  const styled = (s) => {
    const { data } = s;
    const date = s.dateStyle === undefined ? '' : data.date[STYLES.indexOf(s.dateStyle)];
    let time = s.timeStyle === undefined ? '' : data.time[STYLES.indexOf(s.timeStyle)];
    if (time) {
      const pattern12 = /[hK]/.test(time.replace(/'[^']*'/g, ''));
      if (pattern12 !== is12(s.cycle)) {
        const fields = intl.skeletonOf(time);
        const width = fields.h ?? fields.H;
        delete fields.h;
        delete fields.H;
        fields[is12(s.cycle) ? 'h' : 'H'] = width;
        time = intl.pattern(s.locale.data, data, fields, 0, '');
      }
      time = inCycle(s, time);
      s.zoneName = s.timeStyle === 'full' ? 'long' : 'short';
    }
    if (!date || !time) return date || time;
    return intl.joined(data.at[STYLES.indexOf(s.dateStyle)], date, time);
  };

  // ── formatting ──
  const WIDTH = { __proto__: null, 3: 1, 4: 0, 5: 2 };
  const padded = (n, length) => ('' + n).padStart(length, '0');
  const TYPES = {
    __proto__: null, G: 'era', y: 'year', M: 'month', L: 'month', d: 'day', E: 'weekday', c: 'weekday', e: 'weekday',
    h: 'hour', H: 'hour', K: 'hour', k: 'hour', m: 'minute', s: 'second', S: 'fractionalSecond', a: 'dayPeriod', b: 'dayPeriod', B: 'dayPeriod', z: 'timeZoneName', v: 'timeZoneName',
  };
  const fieldText = (s, letter, length, at, ms) => {
    const { data } = s;
    switch (letter) {
      case 'G': return data.eras[length === 4 ? 0 : length === 5 ? 2 : 1][at.getUTCFullYear() > 0 ? 1 : 0];
      case 'y': {
        const year = at.getUTCFullYear(), shown = year > 0 ? year : 1 - year;
        return length === 2 ? padded(shown % 100, 2) : padded(shown, length);
      }
      case 'M': return length < 3 ? padded(at.getUTCMonth() + 1, length) : data.months.format[WIDTH[length]][at.getUTCMonth()];
      case 'L': return length < 3 ? padded(at.getUTCMonth() + 1, length) : data.months.alone[WIDTH[length]][at.getUTCMonth()];
      case 'd': return padded(at.getUTCDate(), length);
      case 'E': return data.days.format[WIDTH[length] ?? 1][at.getUTCDay()];
      case 'c':
      case 'e': return data.days.alone[WIDTH[length] ?? 1][at.getUTCDay()];
      case 'h': return padded(at.getUTCHours() % 12 || 12, length);
      case 'H': return padded(at.getUTCHours(), length);
      case 'K': return padded(at.getUTCHours() % 12, length);
      case 'k': return padded(at.getUTCHours() || 24, length);
      case 'm': return padded(at.getUTCMinutes(), length);
      case 's': return padded(at.getUTCSeconds(), length);
      case 'S': return padded(at.getUTCMilliseconds(), 3).slice(0, length);
      case 'a':
      case 'b':
      case 'B': return data.periods[length === 5 ? 2 : length === 4 ? 0 : 1][at.getUTCHours() < 12 ? 0 : 1];
      default: return intl.zoneText(s.locale, s.zone, ms, s.zoneName ?? 'short');
    }
  };
  const timeOf = (date) => {
    const ms = date === undefined ? Math.floor(now()) : Math.trunc(+date);
    if (!(Math.abs(ms) <= 8.64e15)) throw new RangeError('Invalid time value');
    return ms + 0;
  };
  const partsOf = (s, ms) => {
    const at = new Date(ms + intl.periodAt(s.zone, ms).minutes * 60000), parts = [];
    for (const t of intl.tokens(s.pattern)) {
      if (t.letter === undefined) parts.push({ type: 'literal', value: t.text });
      else parts.push({ type: TYPES[t.letter] ?? 'literal', value: fieldText(s, t.letter, t.length, at, ms) });
    }
    return parts;
  };
  const textOf = (s, ms) => {
    const at = new Date(ms + intl.periodAt(s.zone, ms).minutes * 60000);
    let text = '';
    for (const t of intl.tokens(s.pattern)) text += t.letter === undefined ? t.text : fieldText(s, t.letter, t.length, at, ms);
    return text;
  };
  const rangeParts = (s, start, end) => {
    if (start === undefined || end === undefined) throw new TypeError('startDate or endDate cannot be undefined');
    const a = partsOf(s, timeOf(start)), b = partsOf(s, timeOf(end));
    const from = (parts, source) => parts.map((p) => ({ ...p, source }));
    if (intl.joinParts(a) === intl.joinParts(b)) return from(a, 'shared');
    const [before, between, after] = s.data.interval.split(/\{[01]\}/);
    const literal = (value) => (value ? [{ type: 'literal', value, source: 'shared' }] : []);
    return [...literal(before), ...from(a, 'startRange'), ...literal(between), ...from(b, 'endRange'), ...literal(after)];
  };

  class DateTimeFormat {
    #s; #format;
    constructor(locales = undefined, options = undefined) {
      this.#s = settings(locales, intl.options(options), 'any', 'date');
    }
    get format() {
      const s = this.#s;
      return this.#format ??= (date) => textOf(s, timeOf(date));
    }
    formatToParts(date) { return partsOf(this.#s, timeOf(date)); }
    formatRange(start, end) { return intl.joinParts(rangeParts(this.#s, start, end)); }
    formatRangeToParts(start, end) { return rangeParts(this.#s, start, end); }
    resolvedOptions() {
      const s = this.#s, to = { locale: s.locale.locale, calendar: 'gregory', numberingSystem: 'latn', timeZone: s.zone.id };
      const found = intl.skeletonOf(s.pattern);
      if (found.h !== undefined || found.H !== undefined) Object.assign(to, { hourCycle: s.cycle, hour12: is12(s.cycle) });
      if (s.dateStyle === undefined && s.timeStyle === undefined) {
        for (const [name, , letter, lengths] of FIELDS) {
          const length = found[letter] ?? (letter === 'h' ? found.H : undefined);
          if (s.asked[name] !== undefined && length !== undefined) to[name] = Object.keys(lengths).find((k) => lengths[k] === length) ?? s.asked[name];
        }
        if (s.fraction !== undefined) to.fractionalSecondDigits = s.fraction;
        if (s.zoneName !== undefined) to.timeZoneName = s.zoneName;
      }
      if (s.dateStyle !== undefined) to.dateStyle = s.dateStyle;
      if (s.timeStyle !== undefined) to.timeStyle = s.timeStyle;
      return to;
    }
    static { primordials.addBrand((value) => #s in value); }
  }
  intl.define(DateTimeFormat);
  intl.DateTimeFormat = intl.callable(DateTimeFormat);

  const kept = new Map();
  intl.dateText = (ms, locales, options, required, defaults) => {
    if (options !== undefined || (locales !== undefined && typeof locales !== 'string')) {
      const s = settings(locales, intl.options(options), required, defaults);
      return ms !== ms ? 'Invalid Date' : textOf(s, ms);
    }
    const key = `${defaults} ${locales}`;
    let s = kept.get(key);
    if (s === undefined) {
      s = settings(locales, { __proto__: null }, required, defaults);
      if (kept.size < 50) kept.set(key, s);
    }
    return ms !== ms ? 'Invalid Date' : textOf(s, ms);
  };
}
