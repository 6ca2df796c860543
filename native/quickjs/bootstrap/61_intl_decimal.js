// Decimal numbers as digits: {negative, kind: 'finite' | 'infinity' | 'nan', digits: '1234', point: 2} is 12.34. Rounding works
// on the shortest text of a double, as ICU does: 1.005 to two places is 1.01.
(native, primordials) => {
  'use strict';
  const { intl } = primordials;

  const finite = (negative, digits, point) => {
    let from = 0, to = digits.length;
    while (from < to && digits[from] === '0') from++;
    while (to > from && digits[to - 1] === '0') to--;
    return from === to
      ? { __proto__: null, negative, kind: 'finite', digits: '', point: 0 }
      : { __proto__: null, negative, kind: 'finite', digits: digits.slice(from, to), point: point - from };
  };
  const special = (negative, kind) => ({ __proto__: null, negative, kind, digits: '', point: 0 });
  const fromText = (text) => {
    const m = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i.exec(text);
    return finite(m[1] === '-', m[2] + m[3], m[2].length + +(m[4] ?? 0));
  };

  // https://tc39.es/ecma402/#sec-tointlmathematicalvalue: numbers, BigInts and decimal texts of any length.
  intl.decimal = (value) => {
    if (typeof value === 'object' && value !== null) value = primitive(value);
    if (typeof value === 'bigint') return fromText('' + value);
    if (typeof value === 'string') {
      const text = value.trim();
      if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?$/i.test(text)) return fromText(text);
      value = +text;
    }
    const n = +value;
    if (n !== n) return special(false, 'nan');
    if (n === Infinity || n === -Infinity) return special(n < 0, 'infinity');
    const d = fromText('' + n);
    if (n === 0) d.negative = 1 / n < 0;
    return d;
  };
  const primitive = (object) => {
    const exotic = object[Symbol.toPrimitive];
    if (exotic !== undefined && exotic !== null) return exotic.call(object, 'number');
    const plain = object.valueOf();
    return typeof plain === 'object' && plain !== null ? object.toString() : plain;
  };
  intl.shift = (d, places) => (d.digits === '' ? d : { __proto__: null, ...d, point: d.point + places });
  // The power of ten of the first digit: 0 for 1 to 9.
  intl.magnitude = (d) => (d.digits === '' ? 0 : d.point - 1);

  const increase = (digits) => {
    let i = digits.length - 1, tail = '';
    while (i >= 0 && digits[i] === '9') { tail += '0'; i--; }
    return i < 0 ? '1' + tail : digits.slice(0, i) + (+digits[i] + 1) + tail;
  };
  // Whether what is cut off makes the rest one larger. `half`: -1, 0, 1 for less than, exactly, more than a half.
  const away = (mode, negative, half, odd) => {
    switch (mode) {
      case 'ceil': return !negative;
      case 'floor': return negative;
      case 'expand': return true;
      case 'trunc': return false;
      case 'halfCeil': return half > 0 || (half === 0 && !negative);
      case 'halfFloor': return half > 0 || (half === 0 && negative);
      case 'halfTrunc': return half > 0;
      case 'halfEven': return half > 0 || (half === 0 && odd);
      default: return half >= 0;
    }
  };

  // Rounded to a multiple of `increment` * 10^-places (places may be negative).
  intl.round = (d, places, mode, increment = 1) => {
    const keep = d.point + places;
    if (d.digits === '' || (increment === 1 && keep >= d.digits.length)) return d;
    const whole = keep > 0 ? d.digits.slice(0, keep).padEnd(keep, '0') : '0';
    const rest = keep >= 0 ? d.digits.slice(keep) : '0'.repeat(Math.min(-keep, 2)) + d.digits;
    if (increment !== 1) return roundTo(d, whole, /[1-9]/.test(rest), places, mode, BigInt(increment));
    const half = rest[0] > '5' ? 1 : rest[0] < '5' ? -1 : rest.length > 1 ? 1 : 0; // digits do not end in 0
    const up = away(mode, d.negative, half, +whole[whole.length - 1] % 2 === 1);
    const digits = up ? increase(whole) : whole;
    return finite(d.negative, digits, digits.length - places);
  };
  const roundTo = (d, whole, more, places, mode, increment) => {
    const n = BigInt(whole), over = n % increment, twice = over * 2n;
    let result = n - over;
    if (over !== 0n || more) {
      const half = twice > increment || (twice === increment && more) ? 1 : twice === increment ? 0 : -1;
      if (away(mode, d.negative, half, result / increment % 2n === 1n)) result += increment;
    }
    const digits = '' + result;
    return finite(d.negative, digits, digits.length - places);
  };

  // [digits before the point, digits after it], the second at least `least` long.
  intl.plain = (d, least) => {
    const { digits, point } = d;
    const whole = point > 0 ? digits.slice(0, point).padEnd(point, '0') : '0';
    const fraction = point > 0 ? digits.slice(point) : digits === '' ? '' : '0'.repeat(-point) + digits;
    return [whole, fraction.padEnd(least, '0')];
  };
}
