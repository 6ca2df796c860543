/** The session's random stream, the same as the wasm engine's: splitmix64 for bytes, xorshift64* for Math.random. */

import { type Any, BigInt, hidden, imul, typedLength } from "./intrinsics.ts";

// 64-bit numbers as two halves: BigInt takes twenty times as long (V8 15).
let bytesHigh = 0, bytesLow = 0, high = 0, low = 0;

/** What a multiplication leaves: `mul` gives the low half and puts the high half here. */
let carry = 0;

function mul(ah: number, al: number, bh: number, bl: number): number {
  const a0 = al & 0xFFFF, a1 = al >>> 16, b0 = bl & 0xFFFF, b1 = bl >>> 16;
  const low0 = a0 * b0, mid1 = a1 * b0 + (low0 >>> 16), mid2 = a0 * b1 + (mid1 & 0xFFFF);
  const top = a1 * b1 + (mid1 >>> 16) + (mid2 >>> 16);
  carry = (top + imul(ah, bl) + imul(al, bh)) >>> 0;
  return ((mid2 & 0xFFFF) * 65536 + (low0 & 0xFFFF)) >>> 0;
}

/** splitmix64; the low half is given, the high half left in `carry`. */
function bits(): number {
  const sum = bytesLow + 0x7F4A7C15;
  bytesHigh = (bytesHigh + 0x9E3779B9 + (sum > 0xFFFFFFFF ? 1 : 0)) >>> 0;
  bytesLow = sum >>> 0;
  let h = bytesHigh, l = bytesLow, x: number;
  x = (l ^ ((l >>> 30) | (h << 2))) >>> 0;
  l = mul((h ^ (h >>> 30)) >>> 0, x, 0xBF58476D, 0x1CE4E5B9);
  h = carry;
  x = (l ^ ((l >>> 27) | (h << 5))) >>> 0;
  l = mul((h ^ (h >>> 27)) >>> 0, x, 0x94D049BB, 0x133111EB);
  h = carry;
  carry = (h ^ (h >>> 31)) >>> 0;
  return (l ^ ((l >>> 31) | (h << 1))) >>> 0;
}

export function seed(text: string): void {
  const value = BigInt(text);
  bytesHigh = +("" + (value >> 32n)) >>> 0;
  bytesLow = +("" + (value & 0xFFFFFFFFn)) >>> 0;
  low = (bits() | 1) >>> 0; // xorshift needs a state that is not zero
  high = carry;
}

/** xorshift64*, its upper 52 bits as a fraction. */
function random(): number {
  low = (low ^ ((low >>> 12) | (high << 20))) >>> 0;
  high = (high ^ (high >>> 12)) >>> 0;
  high = (high ^ ((high << 25) | (low >>> 7))) >>> 0;
  low = (low ^ (low << 25)) >>> 0;
  low = (low ^ ((low >>> 27) | (high << 5))) >>> 0;
  high = (high ^ (high >>> 27)) >>> 0;
  const l = mul(high, low, 0x2545F491, 0x4F6CDD1D);
  return (carry * 1048576 + (l >>> 12)) / 4503599627370496;
}

export function replaceRandom(): void {
  hidden(Math, "random", { random: () => random() }.random);
}

/** Fills bytes from the stream. */
export function fill(bytes: Any): void {
  const n = typedLength(bytes);
  for (let i = 0; i < n; i += 8) {
    let l = bits();
    const h = carry;
    for (let k = i; k < i + 8 && k < n; k++) {
      if (k === i + 4) l = h;
      bytes[k] = l & 255;
      l >>>= 8;
    }
  }
}
