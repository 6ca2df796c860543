// Intl.PluralRules: the rules of the CLDR (https://unicode.org/reports/tr35/tr35-numbers.html#Language_Plural_Rules).
(native, primordials) => {
  'use strict';
  const { intl } = primordials;

  // "i = 1 and v = 0 or n % 10 = 2..4" as a list of alternatives, each a list of {operand, modulus, equal, ranges}.
  const compile = (text) => text.split(' or ').map((all) => all.split(' and ').map((relation) => {
    const [, operand, modulus, sign, ranges] = /^([nivwftce])(?: % (\d+))? (!?=) (.*)$/.exec(relation);
    return { operand, modulus: +(modulus ?? 0), equal: sign === '=', ranges: ranges.split(',').map((r) => r.split('..').map(Number)) };
  }));
  const holds = ({ operand, modulus, equal, ranges }, operands) => {
    let value = operands[operand];
    if (modulus) value %= modulus;
    return ranges.some(([low, high = low]) => value >= low && value <= high && (operand !== 'n' || low === high || value % 1 === 0)) === equal;
  };

  const compiled = new Map();
  const rulesOf = (locale, type) => {
    const key = `${type}/${locale.data}`;
    if (!compiled.has(key)) {
      const table = intl.table(type), from = table[locale.data] ?? table[locale.language] ?? { other: '' }; // Portugal has its own
      compiled.set(key, Object.keys(from).map((name) => [name, name === 'other' ? [[]] : compile(from[name])]));
    }
    return compiled.get(key);
  };

  // The category of a number written as `whole`.`fraction`; `exponent` is what a compact one leaves out.
  intl.plural = (locale, type, whole, fraction, exponent = 0) => {
    const rules = rulesOf(locale, type);
    if (rules.length === 1) return 'other';
    const short = fraction.replace(/0+$/, '');
    const operands = {
      __proto__: null, n: +`${whole}.${fraction || '0'}`, i: +whole, v: fraction.length, w: short.length,
      f: +(fraction || 0), t: +(short || 0), c: exponent, e: exponent,
    };
    for (const [name, alternatives] of rules) {
      if (name !== 'other' && alternatives.some((all) => all.every((r) => holds(r, operands)))) return name;
    }
    return 'other';
  };

  class PluralRules {
    #locale; #type; #digits;
    constructor(locales = undefined, options = undefined) {
      this.#locale = intl.resolve(locales);
      const bag = intl.options(options);
      this.#type = intl.option(bag, 'type', 'string', ['cardinal', 'ordinal'], 'cardinal');
      this.#digits = intl.digitOptions(bag, 0, 3, false);
    }
    select(value) {
      const d = intl.decimal(+value);
      if (d.kind !== 'finite') return 'other';
      const [whole, fraction] = intl.digits(d, this.#digits);
      return intl.plural(this.#locale, this.#type, whole, fraction);
    }
    selectRange(start, end) {
      if (start === undefined || end === undefined) throw new TypeError('start or end is undefined');
      return this.select(end); // right for all but a few languages and pairs
    }
    resolvedOptions() {
      const rules = rulesOf(this.#locale, this.#type);
      return { locale: this.#locale.locale, type: this.#type, ...intl.resolvedDigits(this.#digits), pluralCategories: rules.map(([name]) => name) };
    }
    static { primordials.addBrand((value) => #locale in value); }
  }
  intl.define(PluralRules);
  intl.PluralRules = PluralRules;
}
