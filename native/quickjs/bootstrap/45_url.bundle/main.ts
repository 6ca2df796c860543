// URL and URLSearchParams: whatwg-url, the reference implementation of https://url.spec.whatwg.org/. Version 15 is the last
// one that does not bring the tables of every legacy encoding along, which the URL class never uses.
import { forget } from "./shared.ts";
import wrapper from "whatwg-url/webidl2js-wrapper.js";

interface Interface {
  install(target: object, globals: string[]): void;
  is(value: unknown): boolean;
}

interface Primordials {
  addBrand(test: (value: unknown) => boolean): void;
  global(name: string, value: unknown): void;
}

export default function (_native: unknown, primordials: Primordials): void {
  forget();
  const found: Record<string, unknown> = { Array, Object, Promise, String, TypeError };
  const { URL, URLSearchParams } = wrapper as unknown as Record<string, Interface>;
  for (const [name, made] of [["URL", URL], ["URLSearchParams", URLSearchParams]] as const) {
    made.install(found, ["Window"]);
    primordials.addBrand((value) => made.is(value));
    primordials.global(name, found[name]);
  }
}
