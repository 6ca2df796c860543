// Values as text for a reader, in the manner of Node's util.inspect. Looks at data only: no getter, no trap, no toString
// of the guest runs, whatever the value is made of.
(native, primordials) => {
  'use strict';
  const { list, push, join, apply, slice, split, charCodeAt, hexText, symbolText, isoText, max } = primordials;
  const { classOf, ownKeys, ownKind, ownData, protoOf, entriesOf, sizeOf, promiseState, promiseResult } = native;
  const { unbox, regexpText, errorName, errorMessage, errorStack, isClass } = native;

  const WIDTH = 76;
  const MAX_ITEMS = 100;
  const MAX_KEYS = 500;
  const MAX_STRING = 10000;
  const MAX_NODES = 20000; // in one call: deep * wide structures end here
  const DATA = 1, GETTER = 2, SETTER = 4, ENUMERABLE = 8;

  const quote = (text) => {
    let mark = "'";
    let single = false, double = false, back = false;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (c === "'") single = true;
      else if (c === '"') double = true;
      else if (c === '`') back = true;
    }
    if (single) mark = !double ? '"' : !back ? '`' : "'";
    let out = mark, start = 0;
    for (let i = 0; i < text.length; i++) {
      const code = charCodeAt(text, i);
      let escaped;
      if (code === 10) escaped = '\\n';
      else if (code === 13) escaped = '\\r';
      else if (code === 9) escaped = '\\t';
      else if (code === 92) escaped = '\\\\';
      else if (text[i] === mark) escaped = '\\' + mark;
      else if (code < 32 || code === 127) escaped = '\\x' + (code < 16 ? '0' : '') + hexText(code);
      else continue;
      out += slice(text, start, i) + escaped;
      start = i + 1;
    }
    return out + slice(text, start) + mark;
  };

  const primitive = (value, top) => {
    switch (typeof value) {
      case 'string':
        if (top) return value;
        if (value.length > MAX_STRING) {
          return quote(slice(value, 0, MAX_STRING)) + `... ${value.length - MAX_STRING} more characters`;
        }
        return quote(value);
      case 'number':
        return value === 0 && 1 / value < 0 ? '-0' : '' + value;
      case 'bigint':
        return value + 'n';
      case 'symbol':
        return symbolText(value);
      default:
        return '' + value;
    }
  };

  const isWord = (text) => {
    if (text.length === 0) return false;
    for (let i = 0; i < text.length; i++) {
      const c = charCodeAt(text, i);
      const letter = (c >= 97 && c <= 122) || (c >= 65 && c <= 90) || c === 95 || c === 36;
      if (!letter && !(i > 0 && c >= 48 && c <= 57)) return false;
    }
    return true;
  };
  const isIndex = (text) => {
    for (let i = 0; i < text.length; i++) {
      const c = charCodeAt(text, i);
      if (c < 48 || c > 57) return false;
    }
    return text.length > 0;
  };
  const keyText = (key) =>
    typeof key === 'symbol' ? `[${symbolText(key)}]` : isWord(key) ? key : quote(key);

  // The name of the class: from the nearest prototype with a constructor that has a name.
  const className = (value) => {
    let proto = protoOf(value);
    for (let i = 0; proto !== null && i < 20; i++, proto = protoOf(proto)) {
      const constructor = ownData(proto, 'constructor');
      if (typeof constructor === 'function') {
        const name = ownData(constructor, 'name');
        if (typeof name === 'string' && name !== '') return name;
      }
    }
    return null;
  };

  const indentLines = (text, by) => {
    const lines = split(text, '\n');
    let out = ownData(lines, 0);
    for (let i = 1; i < lines.length; i++) out += '\n' + by + ownData(lines, i);
    return out;
  };

  // `open a, b close` on one line when it fits, else an entry per line (short items of arrays: several to a line).
  const layout = (entries, open, close, packed) => {
    if (entries.n === 0) return open + close;
    let total = open.length + close.length, broken = false, longest = 0;
    for (let i = 0; i < entries.n; i++) {
      total += entries[i].length + 2;
      longest = max(longest, entries[i].length);
      if (primordials.indexOf(entries[i], '\n') >= 0) broken = true;
    }
    if (!broken && total <= WIDTH && (entries.n <= 6 || !packed || total <= WIDTH)) {
      return `${open} ${join(entries, ', ')} ${close}`;
    }
    let out = open + '\n  ';
    let used = 2;
    for (let i = 0; i < entries.n; i++) {
      const comma = i + 1 < entries.n ? ',' : '';
      const text = indentLines(entries[i], '  ') + comma;
      if (i > 0) {
        if (packed && !broken && longest <= 16 && used + 1 + text.length <= WIDTH) {
          out += ' ' + text;
          used += 1 + text.length;
          continue;
        }
        out += '\n  ';
        used = 2;
      }
      out += text;
      used += text.length;
    }
    return `${out}\n${close}`;
  };

  const functionText = (value) => {
    const name = ownData(value, 'name');
    const named = typeof name === 'string' && name !== '';
    if (isClass(value)) {
      const parent = protoOf(value);
      const parentName = typeof parent === 'function' ? ownData(parent, 'name') : '';
      const tail = typeof parentName === 'string' && parentName !== '' ? ` extends ${parentName}` : '';
      return `[class ${named ? name : '(anonymous)'}${tail}]`;
    }
    const kind = className(value) ?? 'Function';
    return named ? `[${kind}: ${name}]` : `[${kind} (anonymous)]`;
  };

  const errorText = (value) => {
    const name = errorName(value), message = errorMessage(value), stack = errorStack(value);
    const head = name === '' ? message : message === '' ? name : `${name}: ${message}`;
    return stack === '' ? (primordials.indexOf(head, '\n') < 0 ? `[${head}]` : head) : `${head}\n${stack}`;
  };

  const inspect = (value, options) => {
    const maxDepth = options.depth;
    const path = list();
    let nodes = 0, refs = 0;

    const property = (object, key, depth) => {
      const kind = ownKind(object, key);
      if (kind & DATA) return walk(ownData(object, key), depth);
      return kind & GETTER ? (kind & SETTER ? '[Getter/Setter]' : '[Getter]') : '[Setter]';
    };

    // Own enumerable properties; of arrays and typed arrays only those that are no index.
    const properties = (entries, object, depth, skipIndexes, skip) => {
      const keys = ownKeys(object);
      let shown = 0;
      for (let i = 0; i < keys.length; i++) {
        const key = ownData(keys, i);
        if ((skipIndexes && typeof key === 'string' && isIndex(key)) || (skip !== null && key === skip)) continue;
        if (!(ownKind(object, key) & ENUMERABLE)) continue;
        if (++shown > MAX_KEYS) {
          push(entries, `... ${keys.length - i} more properties`);
          return;
        }
        push(entries, `${keyText(key)}: ${property(object, key, depth)}`);
      }
    };

    const arrayItems = (entries, value, depth) => {
      const n = sizeOf(value);
      let shown = 0, i = 0;
      while (i < n && shown < MAX_ITEMS) {
        if (ownKind(value, i) === 0) {
          let holes = 0;
          while (i < n && holes < 100000 && ownKind(value, i) === 0) { holes++; i++; }
          if (holes === 100000) { holes += n - i; i = n; } // a sparse giant: do not count further
          push(entries, `<${holes} empty item${holes > 1 ? 's' : ''}>`);
        } else {
          push(entries, property(value, i, depth));
          i++;
        }
        shown++;
      }
      if (i < n) push(entries, `... ${n - i} more item${n - i > 1 ? 's' : ''}`);
    };

    const typedItems = (entries, value) => {
      const n = sizeOf(value);
      for (let i = 0; i < n && i < MAX_ITEMS; i++) push(entries, primitive(ownData(value, i), false));
      if (n > MAX_ITEMS) push(entries, `... ${n - MAX_ITEMS} more item${n - MAX_ITEMS > 1 ? 's' : ''}`);
    };

    const members = (entries, value, depth, isMap) => {
      const flat = entriesOf(value, MAX_ITEMS), n = sizeOf(value);
      for (let i = 0; i < flat.length; i++) {
        let text = walk(ownData(flat, i), depth);
        if (isMap) text += ' => ' + walk(ownData(flat, ++i), depth);
        push(entries, text);
      }
      if (n > MAX_ITEMS) push(entries, `... ${n - MAX_ITEMS} more item${n - MAX_ITEMS > 1 ? 's' : ''}`);
    };

    const body = (value, kind, depth) => {
      const name = className(value);
      const entries = list();
      const label = (plain) => (name === null ? `[${plain}: null prototype]` : name);
      switch (kind) {
        case 'array': {
          arrayItems(entries, value, depth);
          properties(entries, value, depth, true, null);
          return layout(entries, name === 'Array' ? '[' : `${label('Array')}(${sizeOf(value)}) [`, ']', true);
        }
        case 'arguments':
          properties(entries, value, depth, false, null);
          return layout(entries, '[Arguments] {', '}', false);
        case 'typedarray':
          typedItems(entries, value);
          return layout(entries, `${label('TypedArray')}(${sizeOf(value)}) [`, ']', true);
        case 'map':
        case 'set':
          members(entries, value, depth, kind === 'map');
          properties(entries, value, depth, false, null);
          return layout(entries, `${label(kind === 'map' ? 'Map' : 'Set')}(${sizeOf(value)}) {`, '}', false);
        case 'promise': {
          const state = promiseState(value);
          push(entries, state === 0 ? '<pending>' : (state === 2 ? '<rejected> ' : '') + walk(promiseResult(value), depth));
          return layout(entries, 'Promise {', '}', false);
        }
        case 'error': {
          const text = errorText(value);
          if (ownKind(value, 'cause') & DATA) push(entries, `[cause]: ${walk(ownData(value, 'cause'), depth)}`);
          if (ownKind(value, 'errors') & DATA) push(entries, `[errors]: ${walk(ownData(value, 'errors'), depth)}`);
          properties(entries, value, depth, false, 'stack');
          return entries.n === 0 ? text : `${text} {\n  ${indentLines(join(entries, ',\n'), '  ')}\n}`;
        }
        default: {
          let open = name === 'Object' ? '{' : `${label('Object')} {`;
          const proto = protoOf(value);
          const tag = proto === null ? undefined : ownData(proto, primordials.SymbolToStringTag);
          if (typeof tag === 'string' && tag !== '' && tag !== name) open = `${label('Object')} [${tag}] {`;
          const shown = name === 'Object' || proto === null ? null : primordials.shown(value);
          if (typeof shown === 'string') push(entries, shown);
          else properties(entries, shown ?? value, depth, false, null);
          return layout(entries, open, '}', false);
        }
      }
    };

    const leaf = (value, kind) => {
      switch (kind) {
        case 'proxy': return '[Proxy]';
        case 'function': return functionText(value);
        case 'date': {
          const ms = unbox(value);
          return ms !== ms ? 'Invalid Date' : isoText(value);
        }
        case 'regexp': return regexpText(value);
        case 'boxed': {
          const inner = unbox(value);
          const type = typeof inner;
          return `[${primordials.capital(type)}: ${primitive(inner, false)}]`;
        }
        case 'weakmap': return 'WeakMap { <items unknown> }';
        case 'weakset': return 'WeakSet { <items unknown> }';
        case 'weakref': return 'WeakRef { <ref> }';
        case 'arraybuffer': return `ArrayBuffer { byteLength: ${sizeOf(value)} }`;
        case 'dataview': return `DataView { byteLength: ${sizeOf(value)} }`;
        default: return null;
      }
    };

    const walk = (value, depth) => {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return primitive(value, false);
      const kind = classOf(value);
      const text = leaf(value, kind);
      if (text !== null) return text;
      for (let i = 0; i < path.n; i++) {
        if (path[i].value === value) {
          if (path[i].ref === 0) path[i].ref = ++refs;
          return `[Circular *${path[i].ref}]`;
        }
      }
      if (++nodes > MAX_NODES) return '...';
      if (depth > maxDepth && kind !== 'error') {
        return kind === 'array' ? '[Array]' : `[${className(value) ?? 'Object: null prototype'}]`;
      }
      if (depth > 100) return '...';
      const frame = { __proto__: null, value, ref: 0 };
      push(path, frame);
      const out = body(value, kind, depth + 1);
      path.n--;
      return frame.ref === 0 ? out : `<ref *${frame.ref}> ${out}`;
    };

    return walk(value, 0);
  };

  // What to show of an instance of a class of the platform: its properties as an object, or text; null for anything else.
  primordials.shown = () => null;
  primordials.capital = (type) =>
    type === 'bigint' ? 'BigInt' : type === 'number' ? 'Number' : type === 'string' ? 'String'
      : type === 'boolean' ? 'Boolean' : 'Symbol';
  primordials.primitiveText = primitive;
  primordials.quote = quote;
  primordials.indentLines = indentLines;
  primordials.inspect = (value, depth) => inspect(value, { __proto__: null, depth: depth ?? 2 });

  // For the message of a thrown value that is no error: short, one line.
  native.setInspector((value) => {
    const lines = split(inspect(value, { __proto__: null, depth: 1 }), '\n');
    let out = ownData(lines, 0);
    for (let i = 1; i < lines.length; i++) {
      const line = ownData(lines, i);
      let start = 0;
      while (line[start] === ' ') start++;
      out += ' ' + slice(line, start);
    }
    return out.length > 500 ? slice(out, 0, 500) + '...' : out;
  });
}
