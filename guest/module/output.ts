/** What a run prints: the beginning of each stream goes to the host at once, its end when the run is over. */

import { Writer } from "../shared/frames.ts";
import { byteLength, slice } from "./originals.ts";

const LINE = 0x6f, TAIL = 0x74;
const STDERR = 2;

const writer = new Writer();

class Stream {
  #cap = 0;
  #sent = 0;
  #partial = "";
  #tail: string[] = [];
  #tailBytes = 0;
  #first = 0;
  #droppedLines = 0;
  #droppedBytes = 0;
  /** A run is under way. What is printed between two runs (while the host closes what is open) is the next one's. */
  #open = false;

  constructor(private readonly number: number) {}

  begin(cap: number): void {
    const early = this.#tail, first = this.#first;
    this.#cap = cap;
    this.#forget();
    this.#open = true;
    for (let i = first; i < early.length; i++) this.line(early[i]);
  }

  #forget(): void {
    this.#sent = this.#tailBytes = this.#first = this.#droppedLines = this.#droppedBytes = 0;
    this.#tail = [];
  }

  /** Text as a program writes it: lines go out when they are whole. */
  write(text: string): void {
    if (text.length > 4 * this.#cap) text = this.#shortened(text, byteLength(text));
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      if (text[at] !== "\n") continue;
      this.line(this.#partial + slice(text, from, at));
      this.#partial = "";
      from = at + 1;
    }
    this.#partial += slice(text, from);
    if (this.#partial.length > this.#cap) this.flush();
  }

  flush(): void {
    if (this.#partial === "") return;
    const partial = this.#partial;
    this.#partial = "";
    this.line(partial);
  }

  /** One line of the host's record. */
  line(text: string): void {
    let size = byteLength(text) + 1;
    if (size > this.#cap + 1) {
      text = this.#shortened(text, size - 1);
      size = byteLength(text) + 1;
    }
    if (this.#open && this.#tail.length === 0 && this.#droppedBytes === 0 && this.#sent + size <= this.#cap) {
      this.#sent += size;
      writer.begin(LINE);
      writer.byte(this.number);
      writer.text(text);
      return writer.send();
    }
    this.#tail[this.#tail.length] = text;
    this.#tailBytes += size;
    while (this.#tailBytes > this.#cap && this.#first < this.#tail.length - 1) {
      const gone = byteLength(this.#tail[this.#first]) + 1;
      this.#tail[this.#first++] = "";
      this.#tailBytes -= gone;
      this.#droppedLines += 1;
      this.#droppedBytes += gone;
    }
    if (this.#first > 4096) this.#compact();
  }

  #compact(): void {
    const kept: string[] = [];
    for (let i = this.#first; i < this.#tail.length; i++) kept[kept.length] = this.#tail[i];
    this.#tail = kept;
    this.#first = 0;
  }

  /** Both ends of a line that is too long by itself: with the mark between, no more bytes than the limit. A unit of UTF-16 is up to 3. */
  #shortened(text: string, size: number): string {
    const half = this.#cap > 9 ? (this.#cap - 3) / (size === text.length ? 2 : 6) | 0 : 1;
    this.#droppedBytes += text.length - 2 * half;
    return `${slice(text, 0, half)}…${slice(text, -half)}`;
  }

  end(): void {
    this.flush();
    this.#open = false;
    if (this.#tail.length === 0 && this.#droppedBytes === 0) return;
    let text = "";
    for (let i = this.#first; i < this.#tail.length; i++) text += `${this.#tail[i]}\n`;
    writer.begin(TAIL);
    writer.text(`{"s":${this.number},"lines":${this.#droppedLines},"bytes":${this.#droppedBytes}}`);
    writer.text(text);
    writer.send();
    this.#forget();
  }
}

export const stdout = new Stream(1);
export const stderr = new Stream(STDERR);

export function beginOutput(cap: number): void {
  stdout.begin(cap);
  stderr.begin(cap);
}

export function endOutput(): void {
  stdout.end();
  stderr.end();
}

/** Lines that are complete by themselves: a call of the console, a report of ours. */
export function say(text: string, error: boolean): void {
  const stream = error ? stderr : stdout;
  stream.flush();
  stream.write(text.endsWith("\n") ? text : `${text}\n`);
}
