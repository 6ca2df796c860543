// Intl.NumberFormat: https://tc39.es/ecma402/#numberformat-objects
(native, primordials) => {
  'use strict';
  const { intl } = primordials;
  const { option, integer } = intl;
  const INCREMENTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000];
  const MODES = ['ceil', 'floor', 'expand', 'trunc', 'halfCeil', 'halfFloor', 'halfExpand', 'halfTrunc', 'halfEven'];

  // https://tc39.es/ecma402/#sec-setnfdigitoptions
  intl.digitOptions = (bag, least, most, compact) => {
    const minimumInteger = integer(bag, 'minimumIntegerDigits', 1, 21, 1);
    const { minimumFractionDigits: lf, maximumFractionDigits: mf, minimumSignificantDigits: ls, maximumSignificantDigits: ms } = bag;
    const increment = integer(bag, 'roundingIncrement', 1, 5000, 1);
    if (!INCREMENTS.includes(increment)) throw new RangeError('roundingIncrement value is out of range.');
    const mode = option(bag, 'roundingMode', 'string', MODES, 'halfExpand');
    const priority = option(bag, 'roundingPriority', 'string', ['auto', 'morePrecision', 'lessPrecision'], 'auto');
    const zeros = option(bag, 'trailingZeroDisplay', 'string', ['auto', 'stripIfInteger'], 'auto');
    const hasSignificant = ls !== undefined || ms !== undefined, hasFraction = lf !== undefined || mf !== undefined;
    const to = { __proto__: null, minimumInteger, increment, mode, zeros, priority };
    const needSignificant = priority !== 'auto' || hasSignificant;
    const needFraction = priority !== 'auto' || (!hasSignificant && (hasFraction || !compact));
    if (needSignificant) {
      to.leastSignificant = integer(bag, 'minimumSignificantDigits', 1, 21, 1);
      to.mostSignificant = integer(bag, 'maximumSignificantDigits', to.leastSignificant, 21, 21);
    }
    if (needFraction) {
      if (hasFraction) {
        let low = integer(bag, 'minimumFractionDigits', 0, 100, undefined);
        let high = integer(bag, 'maximumFractionDigits', 0, 100, undefined);
        low ??= Math.min(least, high);
        high ??= Math.max(increment === 1 ? most : least, low);
        if (low > high) throw new RangeError('maximumFractionDigits value is out of range.');
        to.leastFraction = low;
        to.mostFraction = high;
      } else {
        to.leastFraction = least;
        to.mostFraction = increment === 1 ? Math.max(most, least) : least;
      }
    }
    if (!needSignificant && !needFraction) { // compact: whole numbers, but two digits at least
      Object.assign(to, { leastSignificant: 1, mostSignificant: 2, leastFraction: 0, mostFraction: 0, priority: 'morePrecision', compactDefault: true });
    }
    if (increment !== 1) {
      if (to.leastSignificant !== undefined) throw new TypeError('roundingIncrement needs fraction digits, not significant digits');
      if (to.leastFraction !== to.mostFraction) throw new RangeError('roundingIncrement needs equal minimum and maximum fraction digits');
    }
    return to;
  };
  intl.resolvedDigits = (o) => {
    const to = { minimumIntegerDigits: o.minimumInteger };
    if (o.leastFraction !== undefined) Object.assign(to, { minimumFractionDigits: o.leastFraction, maximumFractionDigits: o.mostFraction });
    if (o.leastSignificant !== undefined) Object.assign(to, { minimumSignificantDigits: o.leastSignificant, maximumSignificantDigits: o.mostSignificant });
    return Object.assign(to, { roundingIncrement: o.increment, roundingMode: o.mode, roundingPriority: o.priority, trailingZeroDisplay: o.zeros });
  };

  // Rounds as the options say: the number, and how many digits after the point it has at least.
  const rounded = (d, o) => {
    const bySignificant = o.leastSignificant === undefined ? null : o.mostSignificant - 1 - intl.magnitude(d);
    let significant = bySignificant !== null && o.mostFraction === undefined;
    if (bySignificant !== null && o.mostFraction !== undefined) {
      significant = (bySignificant > o.mostFraction) === (o.priority === 'morePrecision');
      if (bySignificant === o.mostFraction) significant = true;
    }
    if (!significant) return [intl.round(d, o.mostFraction, o.mode, o.increment), o.leastFraction];
    const r = intl.round(d, bySignificant, o.mode);
    return [r, Math.max(0, o.leastSignificant - 1 - intl.magnitude(r))];
  };
  intl.digits = (d, o) => {
    const [r, least] = rounded(d, o);
    let [whole, fraction] = intl.plain(r, least);
    if (o.zeros === 'stripIfInteger' && /^0*$/.test(fraction)) fraction = '';
    return [whole.padStart(o.minimumInteger, '0'), fraction, r];
  };

  // ── patterns ──
  // '#,##0.00 ¤;(#,##0.00 ¤)' as the affixes of positive and negative numbers and the sizes of groups.
  const patterns = new Map();
  const split = (text) => /^((?:[^#0,.']|'[^']*')*)([#0,.]+(?:E0+)?)?(.*)$/s.exec(text);
  const patternOf = (text) => {
    let p = patterns.get(text);
    if (p === undefined) {
      const [plus, minus] = text.split(';');
      const [, before, body = '', after] = split(plus);
      const groups = body.split('.')[0].split(',');
      const primary = groups.length > 1 ? groups[groups.length - 1].length : 0;
      p = { __proto__: null, before, after, primary, secondary: groups.length > 2 ? groups[groups.length - 2].length : primary, negative: null };
      if (minus !== undefined) {
        const [, b, , a] = split(minus);
        p.negative = [b, a];
      }
      patterns.set(text, p);
    }
    return p;
  };

  const grouped = (whole, p, least, parts, separator) => {
    if (!p.primary || whole.length < p.primary + least) {
      parts.push({ type: 'integer', value: whole });
      return;
    }
    const cuts = [];
    for (let end = whole.length, size = p.primary; end > 0; end -= size, size = p.secondary) {
      cuts.unshift(whole.slice(Math.max(0, end - (cuts.length ? p.secondary : p.primary)), end));
      if (cuts.length === 1) size = p.primary;
    }
    for (let i = 0; i < cuts.length; i++) {
      if (i) parts.push({ type: 'group', value: separator });
      parts.push({ type: 'integer', value: cuts[i] });
    }
  };

  // ── options ──
  const UNITS = new Set(('acre bit byte celsius centimeter day degree fahrenheit fluid-ounce foot gallon gigabit gigabyte gram hectare hour inch ' +
    'kilobit kilobyte kilogram kilometer liter megabit megabyte meter microsecond mile mile-scandinavian milliliter millimeter millisecond minute ' +
    'month nanosecond ounce percent petabyte pound second stone terabit terabyte week yard year').split(' '));
  const isUnit = (unit) => UNITS.has(unit) || (/-per-/.test(unit) && unit.split('-per-').length === 2 && unit.split('-per-').every((u) => UNITS.has(u)));
  const GROUPINGS = ['min2', 'auto', 'always', 'true', 'false'];

  const settings = (locales, bag) => {
    const locale = intl.resolve(locales);
    const s = { __proto__: null, locale };
    option(bag, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit');
    if (bag.numberingSystem !== undefined && !/^[a-z\d]{3,8}(-[a-z\d]{3,8})*$/i.test('' + bag.numberingSystem)) throw new RangeError(`Invalid numberingSystem : ${bag.numberingSystem}`);
    s.style = option(bag, 'style', 'string', ['decimal', 'percent', 'currency', 'unit'], 'decimal');
    const currency = option(bag, 'currency', 'string', undefined, undefined);
    if (currency !== undefined && !/^[a-z]{3}$/i.test(currency)) throw new RangeError(`Invalid currency code : ${currency}`);
    if (s.style === 'currency' && currency === undefined) throw new TypeError('Currency code is required with currency style.');
    const display = option(bag, 'currencyDisplay', 'string', ['code', 'symbol', 'narrowSymbol', 'name'], 'symbol');
    const sign = option(bag, 'currencySign', 'string', ['standard', 'accounting'], 'standard');
    const unit = option(bag, 'unit', 'string', undefined, undefined);
    if (unit !== undefined && !isUnit(unit)) throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${unit}'`);
    if (s.style === 'unit' && unit === undefined) throw new TypeError('Required unit option is missing');
    const unitDisplay = option(bag, 'unitDisplay', 'string', ['short', 'narrow', 'long'], 'short');
    if (s.style === 'currency') Object.assign(s, { currency: currency.toUpperCase(), currencyDisplay: display, currencySign: sign });
    if (s.style === 'unit') Object.assign(s, { unit, unitDisplay });
    s.notation = option(bag, 'notation', 'string', ['standard', 'scientific', 'engineering', 'compact'], 'standard');
    const cents = s.style === 'currency' && s.notation === 'standard' ? intl.table('digits')[s.currency] ?? 2 : 0;
    const most = s.style === 'currency' && s.notation === 'standard' ? cents : s.style === 'percent' ? 0 : 3;
    s.digits = intl.digitOptions(bag, cents, most, s.notation === 'compact');
    const compactDisplay = option(bag, 'compactDisplay', 'string', ['short', 'long'], 'short');
    if (s.notation === 'compact') s.compactDisplay = compactDisplay;
    s.grouping = groupingOf(bag, s.notation === 'compact' ? 'min2' : 'auto');
    s.signDisplay = option(bag, 'signDisplay', 'string', ['auto', 'never', 'always', 'exceptZero', 'negative'], 'auto');
    s.data = intl.part(locale.data, 'number');
    return s;
  };
  const groupingOf = (bag, fallback) => {
    const value = bag.useGrouping;
    if (value === undefined) return fallback;
    if (value === true) return 'always';
    if (value === false || value === null || value === 0 || value === '') return false;
    const text = '' + value;
    if (!GROUPINGS.includes(text)) throw new RangeError(`Value ${text} out of range for Intl.NumberFormat options property useGrouping`);
    return text === 'true' || text === 'false' ? fallback : text;
  };

  // ── formatting ──
  // '-', '' or '+' for a number that is written as zero or not.
  const signOf = (s, d, zero) => {
    const negative = d.negative && d.kind !== 'nan';
    switch (s.signDisplay) {
      case 'never': return '';
      case 'always': return negative ? '-' : '+';
      case 'exceptZero': return zero || d.kind === 'nan' ? '' : negative ? '-' : '+';
      case 'negative': return negative && !zero ? '-' : '';
      default: return negative ? '-' : '';
    }
  };

  const compactOf = (s, d) => {
    const { compact } = s.data;
    const table = s.style === 'currency' && s.currencyDisplay !== 'name' ? compact.currency : compact[s.compactDisplay];
    const most = Math.max(...Object.keys(table));
    let r;
    // Rounding can carry into the next power (999,999 is 1M): until it does not change any more.
    for (let turn = 0, power = intl.magnitude(d); ; turn++) {
      const entry = table[Math.min(power, most)];
      const zeros = entry === undefined ? 0 : /0+/.exec(entry.other)?.[0].length ?? 0;
      const simple = zeros === 0 || /^¤?[\s\u200f]*0+[\s\u200f]*¤?$/.test(entry.other);
      const down = simple || power < 0 ? 0 : Math.min(power, most) + 1 - zeros;
      [r] = rounded(intl.shift(d, -down), s.digits);
      const next = intl.magnitude(r) + down;
      if (next <= power || turn === 2) return { __proto__: null, number: intl.shift(d, -down), down, entry: simple ? null : entry };
      power = next;
    }
  };

  const currencyText = (s) => {
    if (s.currencyDisplay === 'code') return s.currency;
    const c = intl.part(s.locale.data, 'currencies')[s.currency];
    return c === undefined ? s.currency : s.currencyDisplay === 'narrowSymbol' ? c.narrow : c.symbol;
  };
  const isSymbol = (character) => /^[\p{S}\p{Z}]$/u.test(character);

  // An affix ('-', '¤ ', '%') as parts; `inner` is the end that touches the number.
  const affix = (s, text, sign, inner, room, kind, parts) => {
    let literal = '';
    const flush = () => {
      const [, before, word, after] = /^(\s*)([\s\S]*?)(\s*)$/.exec(literal);
      if (kind === 'literal' && literal) parts.push({ type: 'literal', value: literal });
      else for (const [type, value] of [['literal', before], [kind, word], ['literal', after]]) if (value) parts.push({ type, value });
      literal = '';
    };
    const add = (type, value) => {
      flush();
      parts.push({ type, value });
    };
    const { symbols } = s.data;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (c === "'") {
        const end = text.indexOf("'", i + 1);
        literal += end === i + 1 ? "'" : text.slice(i + 1, end);
        i = end;
      } else if (c === '\u0001') {
        add(sign === '-' ? 'minusSign' : 'plusSign', sign === '-' ? symbols.minus : symbols.plus);
      } else if (c === '%') {
        add('percentSign', symbols.percent);
      } else if (c === '¤') {
        const money = currencyText(s), last = [...money];
        if (room && inner === 'after' && i === 0 && !isSymbol(last[0])) literal += '\u00a0';
        add('currency', money);
        if (room && inner === 'before' && i === text.length - 1 && !isSymbol(last[last.length - 1])) literal += '\u00a0';
      } else {
        literal += c;
      }
    }
    flush();
  };

  // Puts the sign (\u0001) where the pattern has its minus, else in front.
  const affixesOf = (p, sign) => {
    if (sign === '-' && p.negative !== null) return [p.negative[0].replace('-', '\u0001'), p.negative[1].replace('-', '\u0001')];
    if (p.before.includes('-') || p.after.includes('-')) return [p.before.replace('-', sign && '\u0001'), p.after.replace('-', sign && '\u0001')];
    return [(sign && '\u0001') + p.before, p.after];
  };

  const numberParts = (s, d, p, exponent) => {
    const parts = [], { symbols } = s.data;
    const money = s.style === 'currency';
    if (d.kind === 'nan') return [[{ type: 'nan', value: symbols.nan }], '0', '', true];
    if (d.kind === 'infinity') return [[{ type: 'infinity', value: symbols.infinity }], '0', '', false];
    const [whole, fraction, r] = intl.digits(d, s.digits);
    const least = s.grouping === 'always' ? 1 : s.grouping === 'min2' ? Math.max(2, s.data.minimumGrouping) : s.data.minimumGrouping;
    if (s.grouping === false) parts.push({ type: 'integer', value: whole });
    else grouped(whole, p, least, parts, money ? symbols.currencyGroup : symbols.group);
    if (fraction) {
      parts.push({ type: 'decimal', value: money ? symbols.currencyDecimal : symbols.decimal });
      parts.push({ type: 'fraction', value: fraction });
    }
    if (exponent !== null) {
      parts.push({ type: 'exponentSeparator', value: symbols.exponent });
      if (exponent < 0) parts.push({ type: 'exponentMinusSign', value: symbols.minus });
      parts.push({ type: 'exponentInteger', value: '' + Math.abs(exponent) });
    }
    return [parts, whole, fraction, r.digits === ''];
  };

  // The text of `pattern` ('{0} km') around the parts.
  const around = (pattern, parts, type) => {
    const at = pattern.indexOf('{0}'), to = [];
    const put = (text) => {
      const [, before, middle, after] = /^(\s*)([\s\S]*?)(\s*)$/.exec(text);
      if (before) to.push({ type: 'literal', value: before });
      if (middle) to.push({ type, value: middle });
      if (after) to.push({ type: 'literal', value: after });
    };
    if (at < 0) put(pattern);
    else {
      put(pattern.slice(0, at));
      to.push(...parts);
      put(pattern.slice(at + 3));
    }
    return to;
  };

  const unitParts = (s, parts, plural) => {
    const units = intl.part(s.locale.data, 'units')[s.unitDisplay];
    const pick = (u) => u[plural] ?? u.other;
    if (units[s.unit] !== undefined) return around(pick(units[s.unit]), parts, s.unit === 'percent' ? 'percentSign' : 'unit');
    const [unit, per] = s.unit.split('-per-');
    const first = pick(units[unit]);
    if (units[per].per !== undefined) return around(units[per].per.replace('{0}', first), parts, 'unit');
    const second = (units[per].one ?? units[per].other).replace('{0}', '').trim();
    return around(units.per.replace('{0}', first).replace('{1}', second), parts, 'unit');
  };

  const compactPattern = (s, entry, plural) => {
    const text = entry[plural] ?? entry.other;
    return /0/.test(text) ? text : entry.other;
  };

  const exponentOf = (s, d) => {
    const of = (x) => (s.notation === 'engineering' ? Math.floor(intl.magnitude(x) / 3) * 3 : intl.magnitude(x));
    let power = of(d);
    const [r] = rounded(intl.shift(d, -power), s.digits);
    return power + of(r);
  };

  const partsOf = (s, value) => {
    let d = intl.decimal(value);
    if (s.style === 'percent') d = intl.shift(d, 2);
    let exponent = null, compact = null;
    if (d.kind === 'finite') {
      if (s.notation === 'compact') {
        compact = compactOf(s, d);
        d = compact.number;
      } else if (s.notation !== 'standard') {
        exponent = exponentOf(s, d);
        d = intl.shift(d, -exponent);
      }
    }
    const { data } = s;
    const named = s.style === 'currency' && s.currencyDisplay === 'name';
    const base = s.style === 'percent' ? data.percent : s.style === 'currency' && !named ? (s.currencySign === 'accounting' ? data.accounting : data.currency) : data.decimal;
    const p = patternOf(base);
    let [inner, whole, fraction, zero] = numberParts(s, d, p, exponent);
    const sign = signOf(s, d, zero);
    const plural = d.kind === 'finite' ? intl.plural(s.locale, 'cardinal', whole, fraction, compact === null ? 0 : compact.down) : 'other';
    const [before, after] = affixesOf(p, sign), parts = [];
    const word = compact === null || compact.entry === null ? null : patternOf(compactPattern(s, compact.entry, plural));
    const room = d.kind === 'finite'; // between a currency of letters and digits
    if (word !== null && s.style === 'currency' && !named) {
      const [b, a] = affixesOf(word, sign); // this pattern has the currency in it
      affix(s, b, sign, 'before', room, 'compact', parts);
      parts.push(...inner);
      affix(s, a, sign, 'after', room, 'compact', parts);
    } else {
      const unquote = (text) => text.replace(/'([^']*)'/g, (_, x) => x || "'");
      if (word !== null) inner = around(unquote(word.before) + '{0}' + unquote(word.after), inner, 'compact');
      affix(s, before, sign, 'before', room, 'literal', parts);
      parts.push(...inner);
      affix(s, after, sign, 'after', room, 'literal', parts);
    }
    if (s.style === 'unit') return unitParts(s, parts, plural);
    if (named) {
      const name = intl.part(s.locale.data, 'currencies')[s.currency]?.name;
      return around((data.named[plural] ?? data.named.other).replace('{1}', name?.[plural] ?? name?.other ?? s.currency), parts, 'currency');
    }
    return parts;
  };
  const textOf = (s, value) => {
    if (s.plain && typeof value === 'number') {
      const n = value;
      if (Number.isInteger(n) && n > -1000 && n < 1000 && (n !== 0 || 1 / n > 0)) return n < 0 ? s.data.symbols.minus + -n : '' + n; // most numbers are small
    }
    return intl.joinParts(partsOf(s, value));
  };

  const OF_NUMBER = new Set(['integer', 'group', 'decimal', 'fraction', 'infinity']);
  const rangeParts = (s, start, end) => {
    if (start === undefined || end === undefined) throw new TypeError('start or end is undefined');
    const a = partsOf(s, start), b = partsOf(s, end);
    if (a.some((p) => p.type === 'nan') || b.some((p) => p.type === 'nan')) throw new RangeError('Invalid number value');
    const from = (parts, source) => parts.map((p) => ({ ...p, source }));
    if (intl.joinParts(a) === intl.joinParts(b)) return [{ type: 'approximatelySign', value: s.data.symbols.approximately, source: 'shared' }, ...from(a, 'shared')];
    const dash = s.data.range.replace('{0}', '').replace('{1}', '');
    // What both have before or after their digits ("$", " km") is written once, unless there is a sign.
    const same = (i, k) => a[i] !== undefined && b[k] !== undefined && a[i].type === b[k].type && a[i].value === b[k].value && !OF_NUMBER.has(a[i].type);
    let head = 0, tail = 0;
    while (same(head, head)) head++;
    while (same(a.length - 1 - tail, b.length - 1 - tail)) tail++;
    if (intl.joinParts(a.slice(0, head)).length < 2) head = 0; // "$" is short enough to be repeated
    if (intl.joinParts(a.slice(a.length - tail)).length < 2) tail = 0;
    if ([...a, ...b].some((p) => p.type === 'minusSign' || p.type === 'plusSign')) head = tail = 0;
    const bare = a.length === head + tail || [...a.slice(head, a.length - tail), ...b.slice(head, b.length - tail)].every((p) => OF_NUMBER.has(p.type));
    const wide = bare ? dash : ` ${dash.trim()} `;
    return [
      ...from(a.slice(0, head), 'shared'), ...from(a.slice(head, a.length - tail), 'startRange'), { type: 'literal', value: wide, source: 'shared' },
      ...from(b.slice(head, b.length - tail), 'endRange'), ...from(b.slice(b.length - tail), 'shared'),
    ];
  };

  class NumberFormat {
    #s; #format;
    constructor(locales = undefined, options = undefined) {
      const s = this.#s = settings(locales, intl.options(options));
      s.plain = options === undefined && intl.part(s.locale.data, 'number').decimal.startsWith('#');
    }
    get format() {
      const s = this.#s;
      return this.#format ??= (value) => textOf(s, value);
    }
    formatToParts(value) { return partsOf(this.#s, value); }
    formatRange(start, end) { return intl.joinParts(rangeParts(this.#s, start, end)); }
    formatRangeToParts(start, end) { return rangeParts(this.#s, start, end); }
    resolvedOptions() {
      const s = this.#s, to = { locale: s.locale.locale, numberingSystem: 'latn', style: s.style };
      for (const name of ['currency', 'currencyDisplay', 'currencySign', 'unit', 'unitDisplay']) if (s[name] !== undefined) to[name] = s[name];
      const { roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay, ...digits } = intl.resolvedDigits(s.digits);
      Object.assign(to, digits, { useGrouping: s.grouping, notation: s.notation });
      if (s.compactDisplay !== undefined) to.compactDisplay = s.compactDisplay;
      return Object.assign(to, { signDisplay: s.signDisplay, roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay });
    }
    static { primordials.addBrand((value) => #s in value); }
  }
  intl.define(NumberFormat);
  intl.NumberFormat = intl.callable(NumberFormat);

  // For toLocaleString: a format without options is made once for each locale.
  const kept = new Map();
  intl.numberText = (value, locales, options) => {
    if (options !== undefined || (locales !== undefined && typeof locales !== 'string')) return textOf(settings(locales, intl.options(options)), value);
    let s = kept.get(locales);
    if (s === undefined) {
      s = settings(locales, { __proto__: null });
      s.plain = true;
      if (kept.size < 50) kept.set(locales, s);
    }
    return textOf(s, value);
  };
}
