// Intl over the data of 50_locales: locale tags, negotiation, options (https://tc39.es/ecma402/).
//
// Written for this guest: the polyfills on npm need up to 180 ms for the first date format and 3 ms for every other one here
// (@formatjs/intl-datetimeformat 7.8), this one about 4 and 0.05. Nothing is parsed before it is asked for.
(native, primordials) => {
  'use strict';
  const { defineProperty, dictionary } = primordials;
  const { data, parents, likely } = primordials.locales;
  const parse = JSON.parse;
  const intl = primordials.intl = { __proto__: null };
  const regions = new Set(primordials.locales.regions.split(' '));
  const DEFAULT = intl.DEFAULT = 'en-US';

  // JSON text of the data, read once.
  const read = new Map();
  const table = intl.table = (name) => {
    if (!read.has(name)) read.set(name, parse(primordials.locales[name]));
    return read.get(name);
  };

  const merge = (base, change) => {
    const to = { ...base };
    for (const key in change) {
      const value = change[key];
      if (value === null) delete to[key];
      else if (typeof value === 'object' && !Array.isArray(value) && typeof to[key] === 'object') to[key] = merge(to[key], value);
      else to[key] = value;
    }
    return to;
  };
  const parentOf = (name) => parents[name] ?? (name.includes('-') ? name.slice(0, name.lastIndexOf('-')) : null);

  // One part ('number', 'calendar', ...) of the data of a locale that has some.
  const parts = new Map();
  const part = intl.part = (name, which) => {
    const key = `${which}/${name}`;
    let found = parts.get(key);
    if (found === undefined) {
      let base = parentOf(name);
      while (base !== null && data[base] === undefined) base = parentOf(base);
      const own = data[name][which] === undefined ? {} : parse(data[name][which]);
      parts.set(key, found = base === null ? own : merge(part(base, which), own));
    }
    return found;
  };

  // ── tags ──
  const TAG = /^([a-z]{2,3}|[a-z]{5,8})(?:-([a-z]{4}))?(?:-([a-z]{2}|\d{3}))?((?:-(?:[a-z\d]{5,8}|\d[a-z\d]{3}))*)((?:-[a-wy-z\d](?:-[a-z\d]{2,8})+)*)(-x(?:-[a-z\d]{1,8})+)?$/i;
  const OLD = { __proto__: null, iw: 'he', in: 'id', no: 'nb', tl: 'fil', mo: 'ro', ji: 'yi', jw: 'jv' };
  const canonical = (tag) => {
    const m = TAG.exec(tag);
    if (m === null) throw new RangeError(`Incorrect locale information provided: '${tag}'`);
    const language = m[1].toLowerCase();
    let text = language !== 'no' && OLD[language] || language;
    if (m[2]) text += '-' + m[2][0].toUpperCase() + m[2].slice(1).toLowerCase();
    if (m[3]) text += '-' + m[3].toUpperCase();
    return text + (m[4] + m[5] + (m[6] ?? '')).toLowerCase();
  };
  intl.canonicalList = (locales) => {
    if (locales === undefined) return [];
    if (typeof locales === 'string' || locales instanceof Locale) return [canonical('' + locales)];
    if (locales === null) throw new TypeError('Incorrect locale information provided');
    const list = [], given = Object(locales), n = Math.min(Math.max(Math.trunc(+given.length) || 0, 0), 1000);
    for (let i = 0; i < n; i++) {
      if (!(i in given)) continue;
      const tag = given[i];
      if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) throw new TypeError('Incorrect locale information provided');
      const name = canonical('' + tag);
      if (!list.includes(name)) list.push(name);
    }
    return list;
  };

  const HAN = { __proto__: null, TW: 'zh-Hant', HK: 'zh-Hant-HK', MO: 'zh-Hant-HK' };
  // A tag as {locale: what is answered, data: whose data is used, extension: {nu: 'latn'}}; null when the language is unknown.
  const lookup = (tag) => {
    const [, language, script, region, , unicode] = TAG.exec(tag);
    const known = OLD[language] ?? language;
    if (likely[known] === undefined) return null;
    let locale = language;
    if (script && (regions.has(`${known}-${script}`) || data[`${known}-${script}`])) locale += '-' + script;
    if (region && (regions.has(`${known}${locale.slice(language.length)}-${region}`) || likely[known] === region || (known === 'zh' && HAN[region]))) {
      locale += '-' + region;
    }
    let name = known + locale.slice(language.length);
    if (known === 'zh' && !script && HAN[region]) name = HAN[region];
    while (data[name] === undefined) name = parentOf(name);
    const extension = { __proto__: null };
    const m = /-u((?:-[a-z\d]{2,8})+)/.exec(unicode);
    if (m !== null) {
      let key = '';
      for (const word of m[1].slice(1).split('-')) {
        if (word.length === 2) extension[key = word] ??= '';
        else if (key) extension[key] += (extension[key] ? '-' : '') + word;
      }
    }
    return { __proto__: null, locale, data: name, extension, region: region ?? likely[known], language: known };
  };

  // Looked up once for each text: `undefined` and single strings are what almost every caller gives.
  const resolved = new Map();
  intl.resolve = (locales) => {
    const key = locales === undefined ? DEFAULT : locales;
    if (typeof key === 'string' && resolved.has(key)) return resolved.get(key);
    let found = null;
    for (const tag of intl.canonicalList(key)) if ((found = lookup(tag)) !== null) break;
    found ??= lookup(DEFAULT);
    if (typeof key === 'string' && resolved.size < 100) resolved.set(key, found);
    return found;
  };
  intl.supported = (locales, options) => {
    if (options !== undefined) intl.option(intl.options(options), 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit');
    return intl.canonicalList(locales).filter((tag) => lookup(tag) !== null);
  };

  // ── options ──
  intl.options = (options) => (options === undefined ? { __proto__: null } : Object(options));
  intl.strictOptions = (options) => dictionary(options, 'Intl');
  intl.option = (options, name, type, allowed, fallback) => {
    let value = options[name];
    if (value === undefined) return fallback;
    if (type === 'boolean') return !!value;
    value = '' + value;
    if (allowed !== undefined && !allowed.includes(value)) throw new RangeError(`Value ${value} out of range for Intl options property ${name}`);
    return value;
  };
  intl.integer = (options, name, least, most, fallback) => {
    const value = options[name];
    if (value === undefined) return fallback;
    const n = +value;
    if (!(n >= least && n <= most)) throw new RangeError(`${name} value is out of range.`);
    return Math.floor(n);
  };

  // The usual static method, toStringTag and enumerability of a class of Intl.
  intl.define = (Class) => {
    defineProperty(Class, 'supportedLocalesOf', {
      __proto__: null, writable: true, configurable: true,
      value: { supportedLocalesOf(locales, options = undefined) { return intl.supported(locales, options); } }.supportedLocalesOf,
    });
    defineProperty(Class.prototype, Symbol.toStringTag, { __proto__: null, value: `Intl.${Class.name}`, configurable: true });
  };
  // NumberFormat and DateTimeFormat can be called without `new`.
  intl.callable = (Class) => {
    const f = { [Class.name](locales, options) { return new Class(locales, options); } }[Class.name];
    const made = function (locales, options) { return new.target === undefined || new.target === made ? f(locales, options) : Reflect.construct(Class, [locales, options], new.target); };
    defineProperty(made, 'name', { __proto__: null, value: Class.name, configurable: true });
    defineProperty(made, 'length', { __proto__: null, value: 0, configurable: true });
    defineProperty(made, 'prototype', { __proto__: null, value: Class.prototype, writable: false });
    defineProperty(Class.prototype, 'constructor', { __proto__: null, value: made, writable: true, configurable: true });
    defineProperty(made, 'supportedLocalesOf', Object.getOwnPropertyDescriptor(Class, 'supportedLocalesOf'));
    return made;
  };
  intl.joinParts = (parts) => {
    let text = '';
    for (let i = 0; i < parts.length; i++) text += parts[i].value;
    return text;
  };

  // Enough of Intl.Locale to take a tag apart.
  class Locale {
    #tag; #match;
    constructor(tag, options = undefined) {
      if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) throw new TypeError('First argument to Intl.Locale constructor can\'t be empty or missing');
      const bag = intl.options(options);
      let m = TAG.exec(canonical('' + tag));
      const subtag = (name, old) => (bag[name] === undefined ? old : '' + bag[name]);
      const language = subtag('language', m[1]), script = subtag('script', m[2]), region = subtag('region', m[3]);
      let text = language + (script ? '-' + script : '') + (region ? '-' + region : '') + m[4] + m[5];
      for (const [name, key] of [['calendar', 'ca'], ['hourCycle', 'hc'], ['numberingSystem', 'nu']]) {
        if (bag[name] !== undefined) text += (/-u-/.test(text) ? '-' : '-u-') + `${key}-${bag[name]}`;
      }
      this.#tag = canonical(text + (m[6] ?? ''));
      this.#match = TAG.exec(this.#tag);
    }
    #key(key) { return new RegExp(`-u(?:-[a-z\\d]{3,8})*(?:-[a-z\\d]{2}(?:-[a-z\\d]{3,8})*)*?-${key}-([a-z\\d]{3,8}(?:-[a-z\\d]{3,8})*)`).exec(this.#tag)?.[1]; }
    get language() { return this.#match[1]; }
    get script() { return this.#match[2]; }
    get region() { return this.#match[3]; }
    get baseName() { return this.#tag.replace(/-[a-z\d]-.*$/, ''); }
    get calendar() { return this.#key('ca'); }
    get hourCycle() { return this.#key('hc'); }
    get numberingSystem() { return this.#key('nu'); }
    toString() { return this.#tag; }
    static { primordials.addBrand((value) => #tag in value); }
  }
  defineProperty(Locale.prototype, Symbol.toStringTag, { __proto__: null, value: 'Intl.Locale', configurable: true });
  intl.Locale = Locale;
}
