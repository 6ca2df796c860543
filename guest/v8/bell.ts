/**
 * Waiting for the next request without sleeping, while one follows the other: a worker that sleeps takes longer to wake than most
 * requests take, and finds its caches cold (a tool call 70 µs, awake 30; a run 90 and 38). The host counts its requests in a file
 * of one byte (src/gloveport/engines/deno/bell.py): to look there costs a microsecond, and nothing is an answer, not an exception.
 * src/gloveport/engines/wasm/worker.py does the same on its socket.
 */

/** Milliseconds: for how long to look; a look that takes so long gave the processor to somebody else, who wants it more (it may be the
 * host, on the same one). */
const MOMENT = 0.2, CONTENDED = 0.03;
/** Requests for which not to look after that, or when nothing came: twice as many each time, half as many after each request that was heard. */
const FEWEST = 4, MOST = 256;

export class Bell {
  #file: Deno.FsFile | null = null;
  #heard = new Uint8Array(1);
  #taken = 0;
  /** Whether the last request came soon. */
  #close = false;
  #began = 0;
  #shy = 0;
  #shyness = FEWEST;

  /** One that is never heard when the file is not there: there may be only one processor, which the host needs. */
  constructor(path: string) {
    try {
      this.#file = Deno.openSync(path);
    } catch { // without it a worker is slower, and no less right
    }
    Deno.permissions.revokeSync({ name: "read" });
  }

  /** Returns when a request is there, or after a moment. */
  listen(): void {
    this.#taken = this.#taken + 1 & 0xFF;
    this.#began = performance.now();
    if (this.#file === null) return;
    if (this.#shy > 0) this.#shy--;
    else if (this.#close) this.#look(this.#file);
  }

  #look(file: Deno.FsFile): void {
    for (let last = this.#began; last - this.#began < MOMENT;) {
      file.seekSync(0, Deno.SeekMode.Start);
      file.readSync(this.#heard);
      if (this.#heard[0] === this.#taken) {
        this.#shyness = Math.max(FEWEST, this.#shyness >> 1);
        return;
      }
      const now = performance.now();
      if (now - last > CONTENDED) break;
      last = now;
    }
    this.#shy = this.#shyness;
    this.#shyness = Math.min(MOST, 2 * this.#shyness);
  }

  /** The request is there. */
  heard(): void {
    this.#close = performance.now() - this.#began < 2 * MOMENT;
  }
}
