// Intl.ListFormat, RelativeTimeFormat and a small Collator.
(native, primordials) => {
  'use strict';
  const { intl } = primordials;
  const { option } = intl;
  const WIDTHS = ['long', 'short', 'narrow'];

  const strings = (list) => {
    const to = [];
    if (list === undefined) return to;
    for (const item of list) {
      if (typeof item !== 'string') throw new TypeError('Iterable yielded a value which is not a string');
      to.push(item);
    }
    return to;
  };
  class ListFormat {
    #locale; #type; #style;
    constructor(locales = undefined, options = undefined) {
      this.#locale = intl.resolve(locales);
      const bag = intl.strictOptions(options);
      option(bag, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit');
      this.#type = option(bag, 'type', 'string', ['conjunction', 'disjunction', 'unit'], 'conjunction');
      this.#style = option(bag, 'style', 'string', WIDTHS, 'long');
    }
    #parts(list) {
      const items = strings(list), n = items.length;
      const element = (value) => [{ type: 'element', value }];
      if (n < 2) return n ? element(items[0]) : [];
      const [pair, start, middle, end] = this.#patterns(items);
      const join = (pattern, a, b) => {
        const [, before, between, after] = /^([\s\S]*)\{0\}([\s\S]*)\{1\}([\s\S]*)$/.exec(pattern);
        const literal = (value) => (value ? [{ type: 'literal', value }] : []);
        return [...literal(before), ...a, ...literal(between), ...b, ...literal(after)];
      };
      if (n === 2) return join(pair, element(items[0]), element(items[1]));
      let parts = join(end, element(items[n - 2]), element(items[n - 1]));
      for (let i = n - 3; i >= 0; i--) parts = join(i ? middle : start, element(items[i]), parts);
      return parts;
    }
    #patterns(items) {
      const patterns = intl.part(this.#locale.data, 'lists')[`${this.#type}-${this.#style}`];
      // Spanish: "y" is "e" before an i, "o" is "u" before an o (ICU has this in its code, the CLDR has not).
      if (this.#locale.language !== 'es' || this.#type === 'unit') return patterns;
      const last = items[items.length - 1];
      const change = this.#type === 'conjunction' ? /^(i|hi(?!a|e))/i.test(last) && [' y ', ' e '] : /^(o|ho|8|11(?!\d))/i.test(last) && [' o ', ' u '];
      return change ? patterns.map((p, i) => (i === 0 || i === 3 ? p.replace(change[0], change[1]) : p)) : patterns;
    }
    format(list) { return intl.joinParts(this.#parts(list)); }
    formatToParts(list) { return this.#parts(list); }
    resolvedOptions() { return { locale: this.#locale.locale, type: this.#type, style: this.#style }; }
    static { primordials.addBrand((value) => #locale in value); }
  }

  const UNITS = ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'];
  class RelativeTimeFormat {
    #locale; #style; #numeric; #numbers;
    constructor(locales = undefined, options = undefined) {
      this.#locale = intl.resolve(locales);
      const bag = intl.options(options);
      option(bag, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit');
      this.#style = option(bag, 'style', 'string', WIDTHS, 'long');
      this.#numeric = option(bag, 'numeric', 'string', ['always', 'auto'], 'always');
      this.#numbers = new intl.NumberFormat(this.#locale.locale);
    }
    #parts(value, unit) {
      const n = +value, name = ('' + unit).replace(/s$/, '');
      if (!UNITS.includes(name)) throw new RangeError(`Invalid unit argument for format() '${unit}'`);
      if (!Number.isFinite(n)) throw new RangeError('The value need to be finite number for Intl.RelativeTimeFormat.prototype.format()');
      const data = intl.part(this.#locale.data, 'relative')[name + (this.#style === 'long' ? '' : '-' + this.#style)];
      const past = n < 0 || (n === 0 && 1 / n < 0);
      if (this.#numeric === 'auto' && data[Object.is(n, -0) ? '0' : '' + n] !== undefined) return [{ type: 'literal', value: data['' + n] }];
      const size = Math.abs(n), d = intl.decimal(size), [whole, fraction] = intl.plain(intl.round(d, 3, 'halfExpand'), 0);
      const forms = past ? data.past : data.future, pattern = forms[intl.plural(this.#locale, 'cardinal', whole, fraction)] ?? forms.other;
      const at = pattern.indexOf('{0}');
      if (at < 0) return [{ type: 'literal', value: pattern }];
      const literal = (text) => (text ? [{ type: 'literal', value: text }] : []);
      const numbers = this.#numbers.formatToParts(size).map((p) => ({ ...p, unit: name }));
      return [...literal(pattern.slice(0, at)), ...numbers, ...literal(pattern.slice(at + 3))];
    }
    format(value, unit) { return intl.joinParts(this.#parts(value, unit)); }
    formatToParts(value, unit) { return this.#parts(value, unit); }
    resolvedOptions() { return { locale: this.#locale.locale, style: this.#style, numeric: this.#numeric, numberingSystem: 'latn' }; }
    static { primordials.addBrand((value) => #locale in value); }
  }

  // Letters without marks, then marks, then case: the first three levels of the root collation for alphabets that sort by code point.
  // No tailoring: ä sorts as a in every language.
  const bare = (text) => text.normalize('NFD').replace(/\p{M}+/gu, '');
  const rank = (c) => (/\s/.test(c) ? 0 : /\p{P}/u.test(c) ? 1 : /\p{S}/u.test(c) ? 2 : /\p{N}/u.test(c) ? 3 : 4);
  const byRank = (a, b) => {
    const x = [...a], y = [...b], n = Math.min(x.length, y.length);
    for (let i = 0; i < n; i++) {
      if (x[i] === y[i]) continue;
      return rank(x[i]) - rank(y[i]) || (x[i] < y[i] ? -1 : 1);
    }
    return x.length - y.length;
  };
  const numeric = (a, b, compare) => {
    const x = a.match(/\d+|\D+/g) ?? [], y = b.match(/\d+|\D+/g) ?? [];
    for (let i = 0; i < x.length && i < y.length; i++) {
      const digits = /^\d/.test(x[i]) && /^\d/.test(y[i]);
      const p = digits ? x[i].replace(/^0+(?=\d)/, '') : x[i], q = digits ? y[i].replace(/^0+(?=\d)/, '') : y[i];
      const d = digits ? p.length - q.length || (p < q ? -1 : p > q ? 1 : 0) : compare(p, q);
      if (d) return d;
    }
    return x.length - y.length;
  };
  const sign = (n) => (n < 0 ? -1 : n > 0 ? 1 : 0);
  const byCase = (a, b, upperFirst) => {
    for (let i = 0; i < a.length && i < b.length; i++) {
      if (a[i] === b[i]) continue;
      const lower = a[i] === a[i].toLowerCase() && b[i] !== b[i].toLowerCase(), upper = b[i] === b[i].toLowerCase() && a[i] !== a[i].toLowerCase();
      if (lower || upper) return lower === upperFirst ? 1 : -1;
    }
    return 0;
  };
  class Collator {
    #locale; #o; #compare;
    constructor(locales = undefined, options = undefined) {
      const locale = this.#locale = intl.resolve(locales), bag = intl.options(options), extension = locale.extension;
      this.#o = {
        __proto__: null,
        usage: option(bag, 'usage', 'string', ['sort', 'search'], 'sort'),
        numeric: option(bag, 'numeric', 'boolean', undefined, extension.kn !== undefined && extension.kn !== 'false'),
        caseFirst: option(bag, 'caseFirst', 'string', ['upper', 'lower', 'false'], extension.kf || 'false'),
        sensitivity: option(bag, 'sensitivity', 'string', ['base', 'accent', 'case', 'variant'], 'variant'),
        ignorePunctuation: option(bag, 'ignorePunctuation', 'boolean', undefined, false),
      };
    }
    get compare() {
      const o = this.#o;
      return this.#compare ??= (x, y) => {
        let a = ('' + x).normalize('NFC'), b = ('' + y).normalize('NFC');
        if (a === b) return 0;
        if (o.ignorePunctuation) [a, b] = [a.replace(/[\p{P}\s]/gu, ''), b.replace(/[\p{P}\s]/gu, '')];
        const order = (p, q) => (o.numeric ? numeric(p, q, byRank) : byRank(p, q));
        const p = bare(a), q = bare(b), first = order(p.toLowerCase(), q.toLowerCase());
        if (first) return sign(first);
        if (o.sensitivity === 'accent' || o.sensitivity === 'variant') {
          const marks = order(a.toLowerCase().normalize('NFD'), b.toLowerCase().normalize('NFD'));
          if (marks) return sign(marks);
        }
        return o.sensitivity === 'case' || o.sensitivity === 'variant' ? byCase(p, q, o.caseFirst === 'upper') : 0;
      };
    }
    resolvedOptions() { return { locale: this.#locale.locale, ...this.#o, collation: 'default' }; }
    static { primordials.addBrand((value) => #o in value); }
  }
  for (const Class of [ListFormat, RelativeTimeFormat, Collator]) intl.define(Class);
  Object.assign(intl, { ListFormat, RelativeTimeFormat, Collator: intl.callable(Collator) });
}
