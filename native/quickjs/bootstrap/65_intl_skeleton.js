// From the fields that are asked for ("yMMMd") to a pattern of a locale ("MMM d, y"), as ICU's pattern generator does it:
// https://unicode.org/reports/tr35/tr35-dates.html#Matching_Skeletons
(native, primordials) => {
  'use strict';
  const { intl } = primordials;
  const CANONICAL = { __proto__: null, L: 'M', c: 'E', e: 'E', K: 'h', k: 'H', a: '', b: '', B: '', z: 'v', O: 'v', Z: 'v' };
  const ORDER = 'GyMEdhHmsSv';
  const ALONE = { __proto__: null, G: 'G', y: 'y', M: 'L', E: 'ccc', d: 'd', h: 'h', H: 'H', m: 'm', s: 's', v: 'z' };

  const isLetter = (c) => (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

  // A pattern as literals and fields: [{letter, length} or {text}].
  const tokens = new Map();
  intl.tokens = (pattern) => {
    let list = tokens.get(pattern);
    if (list !== undefined) return list;
    list = [];
    let text = '';
    const flush = () => {
      if (text) list.push({ __proto__: null, text });
      text = '';
    };
    for (let i = 0; i < pattern.length;) {
      const c = pattern[i];
      if (c === "'") {
        let end = i + 1;
        for (; end < pattern.length; end++) {
          if (pattern[end] !== "'") text += pattern[end];
          else if (pattern[end + 1] === "'") text += pattern[end++];
          else break;
        }
        if (end === i + 1) text += "'";
        i = end + 1;
      } else if (isLetter(c)) {
        flush();
        let length = 1;
        while (pattern[i + length] === c) length++;
        list.push({ __proto__: null, letter: c, length });
        i += length;
      } else {
        text += c;
        i++;
      }
    }
    flush();
    if (tokens.size < 300) tokens.set(pattern, list);
    return list;
  };

  // The fields of a skeleton or a pattern: {y: 1, M: 3}. A generic zone name ("v") counts 10 more than a specific one ("z").
  const GENERIC = 10;
  intl.skeletonOf = (pattern) => {
    const fields = { __proto__: null };
    for (const t of intl.tokens(pattern)) {
      const letter = t.letter === undefined ? '' : CANONICAL[t.letter] ?? t.letter;
      if (letter) fields[letter] = t.length + (t.letter === 'v' ? GENERIC : 0);
    }
    return fields;
  };

  // How a field is written, as a number: numeric ones are far from the texts, and near to each other.
  const kind = (letter, length) => {
    if (letter === 'E' || letter === 'G') return length === 4 ? -0x104 : length === 5 ? -0x101 : -0x103;
    if (letter === 'M' && length > 2) return length === 3 ? -0x103 : length === 4 ? -0x104 : -0x101;
    if (letter === 'v') return (length % GENERIC > 3 ? -0x104 : -0x103) - (length > GENERIC ? 0x10 : 0);
    return 0x100 + length;
  };

  const candidates = new Map();
  const candidatesOf = (name, data) => {
    let list = candidates.get(name);
    if (list !== undefined) return list;
    list = [];
    const add = (fields, pattern, specified) => list.push({ __proto__: null, fields, key: Object.keys(fields).sort().join(''), pattern, specified });
    for (const skeleton in data.available) add(intl.skeletonOf(skeleton), data.available[skeleton], true);
    for (const pattern of [...data.date, ...data.time]) add(intl.skeletonOf(pattern), pattern, false);
    for (const letter in ALONE) if (!list.some((c) => c.key === letter)) add({ __proto__: null, [letter]: ALONE[letter].length }, ALONE[letter], false);
    const first = (c) => ORDER.split('').findIndex((letter) => c.fields[letter] !== undefined);
    list.sort((a, b) => first(a) - first(b));
    candidates.set(name, list);
    return list;
  };

  const distance = (want, have) => {
    let sum = 0;
    for (const letter of ORDER) {
      const a = want[letter], b = have[letter];
      if (a === undefined && b === undefined) continue;
      if (a === undefined) return Infinity; // more than was asked for
      sum += b === undefined ? 0x1000 : Math.abs(kind(letter, a) - kind(letter, b));
    }
    return sum;
  };
  const nearest = (want, list) => {
    let best = null, least = Infinity;
    for (const c of list) {
      const d = distance(want, c.fields);
      if (d < least) {
        least = d;
        best = c;
      }
    }
    return best;
  };

  // The pattern with its fields in the widths that were asked for, where kinds agree.
  const adjusted = (candidate, want) => {
    let out = '';
    for (const t of intl.tokens(candidate.pattern)) {
      if (t.letter === undefined) {
        out += quote(t.text);
        continue;
      }
      const letter = CANONICAL[t.letter] ?? t.letter, asked = want[letter];
      let { length } = t;
      if (asked !== undefined && letter !== 'm' && letter !== 's' && letter !== 'v') {
        const numeric = kind(letter, asked) > 0, own = kind(letter, length) > 0;
        if (!candidate.specified || (numeric === own && candidate.fields[letter] !== asked)) length = asked;
      }
      out += (letter === 'v' && asked !== undefined ? 'z' : t.letter).repeat(length);
    }
    return out;
  };
  const quote = (text) => (/[A-Za-z']/.test(text) ? `'${text.replace(/'/g, "''")}'` : text);

  const withFraction = (pattern, digits, decimal) => (digits ? pattern.replace(/s+/, (s) => `${s}${quote(decimal)}${'S'.repeat(digits)}`) : pattern);

  // A pattern for some fields of one sort (date or time), with what no single one has appended.
  const partial = (want, list, data) => {
    const best = nearest(want, list);
    if (best === null) return '';
    let pattern = adjusted(best, want);
    const rest = { __proto__: null };
    for (const letter in want) if (best.fields[letter] === undefined) rest[letter] = want[letter];
    if (!isEmpty(rest) && !isEmpty(best.fields)) {
      const first = ORDER.split('').find((letter) => rest[letter] !== undefined), append = data.append[first] ?? '{0} {1}';
      const more = partial(rest, list, data), before = pattern;
      pattern = append.replace(/\{([01])\}/g, (_, i) => (i === '0' ? before : more));
    }
    return pattern;
  };

  const DATE = 'GyMEd';
  const subset = (fields, letters, inside) => {
    const to = { __proto__: null };
    for (const letter in fields) if (letters.includes(letter) === inside) to[letter] = fields[letter];
    return to;
  };
  const isEmpty = (object) => {
    for (const _ in object) return false;
    return true;
  };

  // `fields`: widths by letter; 'h' or 'H' says 12 or 24 hours. The pattern may still have another hour letter than is wanted.
  intl.pattern = (name, data, fields, fraction, decimal) => {
    const list = candidatesOf(name, data), key = Object.keys(fields).sort().join('');
    const whole = list.filter((c) => c.key === key);
    if (whole.length) {
      const best = nearest(fields, whole);
      return withFraction(adjusted(best, fields), fraction, decimal);
    }
    const date = subset(fields, DATE, true), time = subset(fields, DATE, false);
    const timeText = isEmpty(time) ? '' : withFraction(partial(time, list, data), fraction, decimal);
    if (isEmpty(date)) return timeText;
    const dateText = partial(date, list, data);
    if (!timeText) return dateText;
    const style = date.M >= 4 && date.M !== 5 ? (date.E !== undefined ? 0 : 1) : date.M === 3 ? 2 : 3;
    return intl.joined(data.at[style], dateText, timeText);
  };
  intl.joined = (pattern, date, time) => pattern.replace('{1}', () => date).replace('{0}', () => time);
}
