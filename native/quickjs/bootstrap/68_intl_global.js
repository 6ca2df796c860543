// `Intl` itself, and toLocaleString of numbers and dates.
(native, primordials) => {
  'use strict';
  const { intl, apply, defineProperty } = primordials;
  const Intl = {};
  const method = (object, methods) => {
    for (const name in methods) defineProperty(object, name, { __proto__: null, value: methods[name], writable: true, configurable: true, enumerable: false });
  };
  defineProperty(Intl, Symbol.toStringTag, { __proto__: null, value: 'Intl', configurable: true });
  const { NumberFormat, DateTimeFormat, PluralRules, RelativeTimeFormat, ListFormat, Collator, Locale } = intl;
  method(Intl, { NumberFormat, DateTimeFormat, PluralRules, RelativeTimeFormat, ListFormat, Collator, Locale });
  method(Intl, {
    getCanonicalLocales(locales) { return intl.canonicalList(locales); },
    supportedValuesOf(key) {
      switch ('' + key) {
        case 'timeZone': return intl.zoneNames();
        case 'calendar': return ['gregory'];
        case 'numberingSystem': return ['latn'];
        case 'collation': return ['default'];
        case 'currency': return Object.keys(intl.part('en', 'currencies')).sort();
        case 'unit': return Object.keys(intl.part('en', 'units').long).filter((u) => u !== 'per' && !u.includes('-per-')).sort();
        default: throw new RangeError(`Invalid key : ${key}`);
      }
    },
  });
  primordials.global('Intl', Intl);

  const numberValue = Number.prototype.valueOf, bigintValue = BigInt.prototype.valueOf, time = Date.prototype.getTime;
  method(Number.prototype, { toLocaleString(locales = undefined, options = undefined) { return intl.numberText(apply(numberValue, this, []), locales, options); } });
  method(BigInt.prototype, { toLocaleString(locales = undefined, options = undefined) { return intl.numberText(apply(bigintValue, this, []), locales, options); } });
  const toLocaleStrings = { // hands its arguments to the elements: https://tc39.es/ecma402/#sup-array.prototype.tolocalestring
    toLocaleString(locales = undefined, options = undefined) {
      const list = Object(this), n = Math.min(Math.max(Math.trunc(+list.length) || 0, 0), Number.MAX_SAFE_INTEGER);
      let text = '';
      for (let i = 0; i < n; i++) {
        const item = list[i];
        text += (i ? ',' : '') + (item === undefined || item === null ? '' : item.toLocaleString(locales, options));
      }
      return text;
    },
  };
  method(Array.prototype, toLocaleStrings);
  method(Object.getPrototypeOf(Uint8Array.prototype), toLocaleStrings);
  method(Date.prototype, {
    toLocaleString(locales = undefined, options = undefined) { return intl.dateText(apply(time, this, []), locales, options, 'any', 'all'); },
    toLocaleDateString(locales = undefined, options = undefined) { return intl.dateText(apply(time, this, []), locales, options, 'date', 'date'); },
    toLocaleTimeString(locales = undefined, options = undefined) { return intl.dateText(apply(time, this, []), locales, options, 'time', 'time'); },
  });
}
