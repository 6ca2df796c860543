// What whatwg-url and webidl-conversions take from the global object while they load. For that time these stand in: the guest has
// no SharedArrayBuffer, and the codecs go straight to the engine, so that what guest code does to TextEncoder changes no URL.

/** Of the bootstrap function that this bundle is the body of. */
declare const native: {
  utf8Encode(text: string): Uint8Array;
  utf8Decode(bytes: Uint8Array, fatal: boolean, stream: boolean): [string, number];
};

class SharedArrayBuffer {
  get byteLength(): number {
    throw new TypeError("not a SharedArrayBuffer");
  }
  get growable(): boolean {
    throw new TypeError("not a SharedArrayBuffer");
  }
}

class TextEncoder {
  encode(text: string): Uint8Array {
    return native.utf8Encode(text);
  }
}

/** UTF-8 that keeps a byte order mark. */
class TextDecoder {
  decode(bytes: Uint8Array): string {
    return native.utf8Decode(bytes, false, false)[0];
  }
}

const world = globalThis as Record<string, unknown>;
Object.assign(world, { SharedArrayBuffer, TextEncoder, TextDecoder });

export function restore(): void {
  for (const name of ["SharedArrayBuffer", "TextEncoder", "TextDecoder"]) delete world[name];
}
