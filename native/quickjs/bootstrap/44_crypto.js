// crypto.getRandomValues and randomUUID over the seeded stream of the session: the same seed gives the same bytes, so they are
// no secret. There is no crypto.subtle: a key that guest code holds protects nothing, and hashing belongs to a tool.
(native, primordials) => {
  'use strict';
  const { hexText, typedName, byteLengthOf, Uint8Array, TypeError } = primordials;
  const { randomFill, classOf } = native;
  const { DOMException } = globalThis;
  const MAX_BYTES = 65536; // https://w3c.github.io/webcrypto/#Crypto-method-getRandomValues

  const MAKE = { __proto__: null };
  class Crypto {
    #brand;
    constructor(key) {
      if (key !== MAKE) throw new TypeError('Crypto: Illegal constructor');
    }
    getRandomValues(array) {
      this.#brand;
      const name = classOf(array) === 'typedarray' ? typedName(array) : '';
      if (name === '' || name === 'Float16Array' || name === 'Float32Array' || name === 'Float64Array') {
        throw new DOMException('crypto.getRandomValues: the argument must be a typed array of integers', 'TypeMismatchError');
      }
      if (byteLengthOf(array) > MAX_BYTES) {
        throw new DOMException(`crypto.getRandomValues: at most ${MAX_BYTES} bytes at once`, 'QuotaExceededError');
      }
      return randomFill(array);
    }
    randomUUID() {
      this.#brand;
      const bytes = randomFill(new Uint8Array(16));
      bytes[6] = bytes[6] & 0x0F | 0x40;
      bytes[8] = bytes[8] & 0x3F | 0x80;
      let text = '';
      for (let i = 0; i < 16; i++) {
        if (i === 4 || i === 6 || i === 8 || i === 10) text += '-';
        text += (bytes[i] < 16 ? '0' : '') + hexText(bytes[i]);
      }
      return text;
    }
    static { primordials.addBrand((value) => #brand in value); }
  }
  primordials.platformClass(Crypto, 'Crypto');
  primordials.global('crypto', new Crypto(MAKE));
}
