// The rest of `console`: format strings, tables, groups, counters, timers. log/info/debug/warn/error are native functions
// that call the formatter here only when an argument is not a plain primitive.
(native, primordials) => {
  'use strict';
  const { list, push, join, slice, inspect, primitiveText, indentLines, repeat, padEnd, max } = primordials;
  const { parseInt, parseFloat, stringify, defineProperty, fixed } = primordials;
  const { classOf, ownKeys, ownKind, ownData, sizeOf, entriesOf, log, indent, now, errorStack } = native;
  const isPrimitive = (v) => v === null || (typeof v !== 'object' && typeof v !== 'function');

  const jsonText = (value) => {
    try {
      return '' + stringify(value);
    } catch {
      return '[Circular]';
    }
  };
  const numberText = (value, convert) => {
    if (typeof value === 'bigint') return value + 'n';
    if (!isPrimitive(value) || typeof value === 'symbol') return 'NaN';
    return primitiveText(convert('' + value), true);
  };
  const toNumber = (text) => +text;

  const one = (letter, value) => {
    switch (letter) {
      case 's': return isPrimitive(value) ? (typeof value === 'bigint' ? value + 'n' : primitiveText(value, true)) : inspect(value, 0);
      case 'd': return typeof value === 'number' ? primitiveText(value, true) : numberText(value, toNumber);
      case 'i': return numberText(value, parseInt);
      case 'f': return numberText(value, parseFloat);
      case 'j': return jsonText(value);
      case 'o': return inspect(value, 4);
      case 'O': return inspect(value, 4);
      case 'c': return '';
      default: return null;
    }
  };

  // The arguments of a console call as one text: https://console.spec.whatwg.org/#formatter
  const compose = (args, from) => {
    let out = '', next = from;
    if (args.length - from > 1 && typeof args[from] === 'string') {
      const template = args[from];
      let start = 0;
      next = from + 1;
      for (let i = 0; i + 1 < template.length; i++) {
        if (template[i] !== '%') continue;
        const letter = template[i + 1];
        if (letter === '%') {
          out += slice(template, start, i) + '%';
        } else {
          const text = next < args.length ? one(letter, args[next]) : null;
          if (text === null) continue;
          out += slice(template, start, i) + text;
          next++;
        }
        i++;
        start = i + 1;
      }
      out += slice(template, start);
      if (next < args.length) out += ' ';
    }
    for (let i = next; i < args.length; i++) {
      const value = args[i];
      out += (i > next ? ' ' : '') + (isPrimitive(value) ? primitiveText(value, true) : inspect(value, 2));
    }
    return out;
  };
  const indented = (text) => {
    const by = indent(0);
    return by > 0 ? repeat(' ', by) + indentLines(text, repeat(' ', by)) : text;
  };
  native.setFormatter((...args) => indented(compose(args, 0)));
  const print = (stream, text) => log(stream, indented(text));

  const counts = { __proto__: null };
  const started = { __proto__: null };
  const labelOf = (label) => (label === undefined ? 'default' : isPrimitive(label) ? primitiveText(label, true) : inspect(label, 0));
  const durationText = (ms) => {
    if (ms < 1000) return primitiveText(ms % 1 === 0 ? ms : +fixed(ms, 3), true) + 'ms';
    return primitiveText(+fixed(ms / 1000, 3), true) + 's';
  };

  // ── table ──
  const cell = (value) => (isPrimitive(value) ? primitiveText(value, false) : inspect(value, 0));
  const rowsOf = (data) => {
    const rows = list();
    const kind = classOf(data);
    if (kind === 'map' || kind === 'set') {
      const flat = entriesOf(data, 1000), step = kind === 'map' ? 2 : 1;
      for (let i = 0; i < flat.length; i += step) {
        push(rows, { __proto__: null, index: kind === 'map' ? cell(ownData(flat, i)) : '' + i, value: ownData(flat, i + step - 1) });
      }
      return rows;
    }
    const keys = ownKeys(data);
    for (let i = 0; i < keys.length && rows.n < 1000; i++) {
      const key = ownData(keys, i);
      if (typeof key === 'string' && ownKind(data, key) & 8) {
        push(rows, { __proto__: null, index: key, value: ownData(data, key) });
      }
    }
    return rows;
  };
  const columnsOf = (rows, only) => {
    const columns = list(), seen = { __proto__: null };
    const add = (key) => {
      if (typeof key === 'string' && seen[key] === undefined && columns.n < 50) {
        seen[key] = true;
        push(columns, key);
      }
    };
    if (classOf(only) === 'array') {
      for (let i = 0; i < sizeOf(only) && i < 50; i++) add(ownData(only, i));
      return columns;
    }
    for (let r = 0; r < rows.n; r++) {
      if (isPrimitive(rows[r].value)) continue;
      const keys = ownKeys(rows[r].value);
      for (let i = 0; i < keys.length; i++) {
        if (ownKind(rows[r].value, ownData(keys, i)) & 8) add(ownData(keys, i));
      }
    }
    return columns;
  };
  const tableText = (data, only) => {
    const rows = rowsOf(data), columns = columnsOf(rows, only);
    let values = false;
    for (let r = 0; r < rows.n; r++) if (isPrimitive(rows[r].value)) values = true;
    const head = list();
    push(head, '(index)');
    for (let i = 0; i < columns.n; i++) push(head, columns[i]);
    if (values) push(head, 'Values');
    const lines = list();
    push(lines, head);
    for (let r = 0; r < rows.n; r++) {
      const line = list(), value = rows[r].value, simple = isPrimitive(value);
      push(line, rows[r].index);
      for (let i = 0; i < columns.n; i++) {
        const kind = simple ? 0 : ownKind(value, columns[i]);
        push(line, kind & 1 ? cell(ownData(value, columns[i])) : kind ? '[Getter]' : '');
      }
      if (values) push(line, simple ? cell(value) : '');
      push(lines, line);
    }
    const widths = list();
    for (let i = 0; i < head.n; i++) {
      let width = 0;
      for (let r = 0; r < lines.n; r++) width = max(width, lines[r][i].length);
      push(widths, width + 2);
    }
    const rule = (left, middle, right) => {
      const parts = list();
      for (let i = 0; i < widths.n; i++) push(parts, repeat('─', widths[i]));
      return left + join(parts, middle) + right;
    };
    let out = rule('┌', '┬', '┐');
    for (let r = 0; r < lines.n; r++) {
      const parts = list();
      for (let i = 0; i < head.n; i++) push(parts, ' ' + padEnd(lines[r][i], widths[i] - 1));
      out += `\n│${join(parts, '│')}│`;
      if (r === 0) out += '\n' + rule('├', '┼', '┤');
    }
    return `${out}\n${rule('└', '┴', '┘')}`;
  };

  // ── methods ──
  const tail = (args, head) => {
    let text = head;
    if (args.length > 1) text += ' ' + compose(args, 1);
    return text;
  };
  const methods = {
    __proto__: null,
    assert(condition, ...args) {
      if (condition) return;
      if (args.length === 0) print(2, 'Assertion failed');
      else if (typeof args[0] === 'string') print(2, 'Assertion failed: ' + compose(args, 0));
      else print(2, 'Assertion failed ' + compose(args, 0));
    },
    trace(...args) {
      const text = args.length ? 'Trace: ' + compose(args, 0) : 'Trace';
      const stack = errorStack(new primordials.Error());
      print(2, stack === '' ? text : `${text}\n${stack}`);
    },
    dir(value, options) {
      const depth = options === undefined ? 2 : ownData(options, 'depth');
      print(1, inspect(value, depth === null ? 100 : typeof depth === 'number' ? depth : 2));
    },
    table(data, only) {
      print(1, isPrimitive(data) ? primitiveText(data, true) : classOf(data) === 'proxy' ? '[Proxy]' : tableText(data, only));
    },
    group(...args) {
      if (args.length) print(1, compose(args, 0));
      indent(2);
    },
    groupEnd() {
      indent(-2);
    },
    count(label) {
      const name = labelOf(label);
      counts[name] = (counts[name] ?? 0) + 1;
      print(1, `${name}: ${counts[name]}`);
    },
    countReset(label) {
      const name = labelOf(label);
      if (counts[name] === undefined) print(2, `Count for '${name}' does not exist`);
      else counts[name] = 0;
    },
    time(label) {
      const name = labelOf(label);
      if (started[name] !== undefined) print(2, `Timer '${name}' already exists`);
      else started[name] = now();
    },
    timeLog(...args) {
      const name = labelOf(args[0]);
      if (started[name] === undefined) print(2, `Timer '${name}' does not exist`);
      else print(1, tail(args, `${name}: ${durationText(now() - started[name])}`));
    },
    timeEnd(label) {
      const name = labelOf(label);
      if (started[name] === undefined) {
        print(2, `Timer '${name}' does not exist`);
      } else {
        print(1, `${name}: ${durationText(now() - started[name])}`);
        delete started[name];
      }
    },
    clear() {},
  };
  const console = globalThis.console;
  const define = (name, value) => {
    defineProperty(console, name, { __proto__: null, value, writable: true, configurable: true, enumerable: true });
  };
  for (const name in methods) define(name, methods[name]);
  define('dirxml', console.log);
  define('groupCollapsed', console.group);
  for (const name of ['log', 'info', 'debug', 'warn', 'error']) define(name, console[name]);
  defineProperty(console, primordials.SymbolToStringTag, { __proto__: null, value: 'console', configurable: true });
}
