// webidl-conversions takes getters from SharedArrayBuffer.prototype while it loads. The guest has no such class:
// for that time this one stands in, of which nothing is ever an instance.
class SharedArrayBuffer {
  get byteLength(): number {
    throw new TypeError("not a SharedArrayBuffer");
  }
  get growable(): boolean {
    throw new TypeError("not a SharedArrayBuffer");
  }
}

const world = globalThis as Record<string, unknown>;
world.SharedArrayBuffer = SharedArrayBuffer;

export function forget(): void {
  delete world.SharedArrayBuffer;
}
