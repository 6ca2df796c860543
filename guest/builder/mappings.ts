/** Source maps, reduced to what is told to a model: which places of the bundle are which places of its own module. */

/** Per line of the bundle: column, then line and column of the widget's source, all 0-based, columns in UTF-16 units; line -1: not of it. */
export type Mapping = [number, number, number][][];

const DIGITS = new Map([..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].map((c, i) => [c, i]));

function* numbers(text: string): Generator<number> {
  let value = 0, shift = 0;
  for (const character of text) {
    const digit = DIGITS.get(character) ?? 0;
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    yield value & 1 ? -(value >>> 1) : value >>> 1;
    value = shift = 0;
  }
}

/** Of so many places no more is told: a host decodes them on its event loop. A source of 200 KB has as many. */
const MOST_SEGMENTS = 50_000;

/** The `mappings` of a source map (ECMA-426) for the source with the index `own`; empty when there are too many. */
export function decode(mappings: string, own: number): Mapping {
  const map = segmentsOf(mappings, own);
  return map.reduce((count, line) => count + line.length, 0) > MOST_SEGMENTS ? [] : map;
}

function segmentsOf(mappings: string, own: number): Mapping {
  let source = 0, line = 0, column = 0;
  return mappings.split(";").map((text) => {
    const segments: [number, number, number][] = [];
    let at = 0;
    for (const part of text ? text.split(",") : []) {
      const [step, ...place] = numbers(part);
      at += step!;
      if (place.length) {
        source += place[0]!;
        line += place[1]!;
        column += place[2]!;
      }
      const ours = place.length > 0 && source === own;
      if (ours) segments.push([at, line, column]);
      else if (segments.at(-1)?.[1] !== -1) segments.push([at, -1, 0]);
    }
    return segments;
  });
}

/**
 * A module whose own source map, if it names one, is not looked at: a broken one would be an error of the widget, and another one would
 * lead its errors astray. Only the last such comment counts (esbuild-wasm 0.28.2), so there is a further one, of no map; all else stays
 * where and as it is, texts that only look like such a comment included.
 */
export function withoutMap(code: string, loader: string): string {
  if (!code.includes("sourceMappingURL=") || loader === "json" || loader === "text") return code;
  const comment = "# sourceMappingURL=none";
  return `${code}\n${loader === "css" ? `/*${comment} */` : `//${comment}`}`;
}
