/** Tailwind CSS by its own compiler, for the class names that a source mentions. */

import { compile } from "tailwindcss";
import all from "tailwindcss/index.css" with { type: "text" };
import preflight from "tailwindcss/preflight.css" with { type: "text" };
import theme from "tailwindcss/theme.css" with { type: "text" };
import utilities from "tailwindcss/utilities.css" with { type: "text" };

const SHEETS: Record<string, string> = {
  "tailwindcss": all,
  "tailwindcss/index.css": all,
  "tailwindcss/preflight.css": preflight,
  "tailwindcss/preflight": preflight,
  "tailwindcss/theme.css": theme,
  "tailwindcss/theme": theme,
  "tailwindcss/utilities.css": utilities,
  "tailwindcss/utilities": utilities,
};
const USUAL = '@import "tailwindcss";';

/** CSS that is wrong, or asks for what is not there. The text is for the model. */
export class CssFailure extends Error {}

type Compiler = Awaited<ReturnType<typeof compile>>;

function compiler(css: string): Promise<Compiler> {
  return compile(css, {
    loadStylesheet: (id, base) => {
      const content = Object.hasOwn(SHEETS, id) ? SHEETS[id] : undefined;
      if (content === undefined) {
        throw new CssFailure(`the CSS imports ${JSON.stringify(id)}: only "tailwindcss" and its parts are there`);
      }
      return Promise.resolve({ path: id, base, content });
    },
    loadModule: (id) => {
      throw new CssFailure(
        `the CSS names the module ${JSON.stringify(id)}: plugins and configuration files of Tailwind are not supported`,
      );
    },
  });
}

let ready: Promise<Compiler> | null = null;

/** Has a compiler at hand for the usual style sheet: it takes longer than what comes after. One serves one source, as it remembers classes. */
export async function prepare(): Promise<void> {
  await (ready ??= compiler(USUAL));
}

const BETWEEN = /[\s"'`<>{}\\;]+|(?<![\w-])[=,]+|,(?=\s)/;
/** Brackets of a class name may hold what otherwise ends one: `[&>li]:p-1`, `before:content-['x']`. */
const WITH_BRACKETS = /(?:[\w!@*:\/.%&#-]|\[[^\s[\]]{1,200}\]|\([^\s()]{1,200}\))+/g;

/**
 * What may be class names in a source. Like Tailwind's own scanner it looks at the text and not at the syntax: names must stand in the
 * source whole. What is none gives no rule.
 */
export function candidates(source: string): string[] {
  const words = [...source.split(BETWEEN), ...(source.match(WITH_BRACKETS) ?? [])];
  return [...new Set(words.filter((word) => word.length <= 300 && /^[-!@*a-z[]/.test(word)))];
}

/** The style sheet for a source; `css` is the application's own, which may leave out the import of Tailwind. Throws `CssFailure`. */
export async function styles(source: string, css: string): Promise<string> {
  const usual = css === "";
  const taken = usual
    ? ready ?? compiler(USUAL)
    : compiler(/@import\s+["']tailwindcss/.test(css) ? css : `${USUAL}\n${css}`);
  if (usual) ready = null;
  try {
    return (await taken).build(candidates(source));
  } catch (error) {
    throw error instanceof CssFailure ? error : new CssFailure(`the CSS does not compile: ${(error as Error).message}`);
  }
}
