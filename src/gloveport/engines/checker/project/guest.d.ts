// What the guest offers beside the language: no DOM, no Node.js, no network.

declare function setTimeout(callback: (...args: any[]) => void, milliseconds?: number, ...args: any[]): any;
declare function setInterval(callback: (...args: any[]) => void, milliseconds?: number, ...args: any[]): any;
declare function setImmediate(callback: (...args: any[]) => void, ...args: any[]): any;
declare function clearTimeout(timer?: any): void;
declare function clearInterval(timer?: any): void;
declare function clearImmediate(timer?: any): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T, options?: { transfer?: any[] }): T;
declare function atob(data: any): string;
declare function btoa(data: any): string;

// Legal JavaScript that the language's own declarations refuse.
declare function isNaN(value: any): boolean;
declare function isFinite(value: any): boolean;
declare function parseInt(text: any, radix?: number): number;
declare function parseFloat(text: any): number;

interface Console {
  log(...data: any[]): void;
  info(...data: any[]): void;
  debug(...data: any[]): void;
  warn(...data: any[]): void;
  error(...data: any[]): void;
  trace(...data: any[]): void;
  assert(condition?: any, ...data: any[]): void;
  dir(value?: any, options?: any): void;
  dirxml(...data: any[]): void;
  table(data?: any, columns?: string[]): void;
  group(...data: any[]): void;
  groupCollapsed(...data: any[]): void;
  groupEnd(): void;
  count(label?: any): void;
  countReset(label?: any): void;
  time(label?: any): void;
  timeLog(label?: any, ...data: any[]): void;
  timeEnd(label?: any): void;
  clear(): void;
}
declare var console: Console;

interface Performance {
  readonly timeOrigin: number;
  now(): number;
}
declare var performance: Performance;

interface Crypto {
  getRandomValues<T>(array: T): T;
  randomUUID(): string;
}
declare var Crypto: { prototype: Crypto };
declare var crypto: Crypto;

interface TextEncoder {
  readonly encoding: string;
  encode(text?: string): Uint8Array;
  encodeInto(text: string, target: Uint8Array): { read: number; written: number };
}
declare var TextEncoder: { prototype: TextEncoder; new (): TextEncoder };

interface TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(input?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  prototype: TextDecoder;
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

interface URLSearchParams {
  readonly size: number;
  append(name: string, value: any): void;
  delete(name: string, value?: any): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: any): boolean;
  set(name: string, value: any): void;
  sort(): void;
  toString(): string;
  forEach(callback: (value: string, key: string, parent: URLSearchParams) => void, self?: any): void;
  keys(): IteratorObject<string, undefined>;
  values(): IteratorObject<string, undefined>;
  entries(): IteratorObject<[string, string], undefined>;
  [Symbol.iterator](): IteratorObject<[string, string], undefined>;
}
declare var URLSearchParams: { prototype: URLSearchParams; new (init?: any): URLSearchParams };

interface URL {
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toString(): string;
  toJSON(): string;
}
declare var URL: {
  prototype: URL;
  new (url: string | URL, base?: string | URL): URL;
  parse(url: string | URL, base?: string | URL): URL | null;
  canParse(url: string | URL, base?: string | URL): boolean;
};

interface Event {
  readonly type: string;
  readonly target: any;
  readonly srcElement: any;
  readonly currentTarget: any;
  readonly eventPhase: number;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  readonly defaultPrevented: boolean;
  returnValue: boolean;
  cancelBubble: boolean;
  readonly isTrusted: boolean;
  readonly timeStamp: number;
  composedPath(): any[];
  preventDefault(): void;
  stopPropagation(): void;
  stopImmediatePropagation(): void;
}
declare var Event: { prototype: Event; new (type: string, init?: any): Event };

interface CustomEvent<T = any> extends Event {
  readonly detail: T;
}
declare var CustomEvent: { prototype: CustomEvent; new <T>(type: string, init?: { detail?: T } & Record<string, any>): CustomEvent<T> };

interface EventTarget {
  addEventListener(type: string, listener: any, options?: any): void;
  removeEventListener(type: string, listener: any, options?: any): void;
  dispatchEvent(event: Event): boolean;
}
declare var EventTarget: { prototype: EventTarget; new (): EventTarget };

interface AbortSignal extends EventTarget {
  readonly aborted: boolean;
  readonly reason: any;
  onabort: any;
  throwIfAborted(): void;
}
declare var AbortSignal: {
  prototype: AbortSignal;
  abort(reason?: any): AbortSignal;
  timeout(milliseconds: number): AbortSignal;
  any(signals: Iterable<AbortSignal>): AbortSignal;
};
interface AbortController {
  readonly signal: AbortSignal;
  abort(reason?: any): void;
}
declare var AbortController: { prototype: AbortController; new (): AbortController };

interface DOMException extends Error {
  readonly code: number;
}
declare var DOMException: { prototype: DOMException; new (message?: string, name?: any): DOMException };
