/** What surrounds code in a model's answer: Markdown fences, prose, a byte order mark, a hashbang. */

import { SourceError } from "./position.ts";

const LANGUAGES = new Set(["", "ts", "typescript", "js", "javascript", "tsx", "jsx", "mts", "mjs", "deno", "node"]);
const OPENING = /^[ \t]*(`{3,})[ \t]*([\w+#.-]*)[^`\n\r]*$/;

interface Block {
  /** Offset of the opening fence's line. */
  start: number;
  language: string;
  /** The code between the fences. */
  from: number;
  to: number;
  /** The block's last line has no closing fence. */
  open: boolean;
}

function* lines(source: string): Generator<{ text: string; start: number; next: number }> {
  for (let start = 0; start < source.length;) {
    const feed = source.indexOf("\n", start);
    const next = feed < 0 ? source.length : feed + 1;
    yield { text: source.slice(start, next).trimEnd(), start, next };
    start = next;
  }
}

/** Fenced blocks as Markdown sees them: a fence closes with at least as many backticks and nothing after them. */
function fencedBlocks(source: string): Block[] {
  const blocks: Block[] = [];
  let ticks = "";
  let current: Block | null = null;
  for (const { text, start, next } of lines(source)) {
    if (current) {
      const trimmed = text.trim();
      if (!/^`{3,}$/.test(trimmed) || trimmed.length < ticks.length) continue;
      current.to = start;
      current.open = false;
      current = null;
    } else {
      const match = OPENING.exec(text);
      if (!match) continue;
      ticks = match[1]!;
      current = { start, language: match[2]!.toLowerCase(), from: next, to: source.length, open: true };
      blocks.push(current);
    }
  }
  return blocks;
}

/** The lines before `end`, emptied: what follows keeps its line numbers. */
function blankLines(source: string, end: number): string {
  return source.slice(0, end).replace(
    /\r\n|[\n\r\u2028\u2029]|[^\n\r\u2028\u2029]+/g,
    (part) => /^[\n\r\u2028\u2029]/.test(part) ? "\n" : "",
  );
}

/**
 * The code in what the model sent, on the same lines. `isComment(offset)` says whether a place is inside a comment of a
 * text that is JavaScript as it stands; a fence there is part of that comment.
 * A fence anywhere else cannot be meant as code: three backticks are an empty template used as a tag.
 */
export function extractCode(sent: string, isComment: (source: string, offset: number) => boolean): string {
  let source = sent;
  if (source.includes("```")) {
    const blocks = fencedBlocks(source).filter((block) => !isComment(source, block.start));
    const code = blocks.filter((block) => LANGUAGES.has(block.language));
    const chosen = code[0] ?? blocks[0];
    if (chosen) {
      if (!code.length) {
        throw new SourceError(
          `the fenced block is marked '${chosen.language}': send JavaScript or TypeScript`,
          chosen.start,
        );
      }
      if (code.length > 1) {
        throw new SourceError(
          "there is more than one fenced code block: send one block, or the code only",
          code[1]!.start,
        );
      }
      if (chosen.open && source.slice(0, chosen.start).trim()) {
        throw new SourceError("the fenced code block is not closed", chosen.start);
      }
      source = blankLines(source, chosen.from) + source.slice(chosen.from, chosen.to);
    }
  }
  // A hashbang becomes a comment of the same length, so that columns stay.
  return source.replace(/^(\s*)#!/, "$1//");
}
