// URL and URLSearchParams: whatwg-url, the reference implementation of https://url.spec.whatwg.org/. Version 15 is the last
// one that does not bring the tables of every legacy encoding along, which the URL class never uses. It comes early, because
// compiling it needs the most memory, which later files then use again. 45_url.js makes the globals.
import { restore } from "./world.ts";
import wrapper from "whatwg-url/webidl2js-wrapper.js";

interface Interface {
  install(target: object, globals: string[]): void;
  is(value: unknown): boolean;
}

export default function (_native: unknown, primordials: Record<string, unknown>): void {
  restore();
  const made: Record<string, unknown> = { Array, Object, Promise, String, TypeError };
  const interfaces = wrapper as unknown as Record<string, Interface>;
  for (const name of ["URL", "URLSearchParams"]) interfaces[name].install(made, ["Window"]);
  primordials.url = {
    URL: made.URL,
    URLSearchParams: made.URLSearchParams,
    is: (value: unknown) => interfaces.URL.is(value),
    isParams: (value: unknown) => interfaces.URLSearchParams.is(value),
  };
}
