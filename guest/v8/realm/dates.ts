/** `Date`, `Intl.DateTimeFormat` and `Temporal.Now` by the session's clock. The engine's own `Date` stays in here. */

import {
  type Any,
  apply,
  construct,
  Date as EngineDate,
  defineProperty,
  descriptorOf,
  getter,
  getterIn,
  hidden,
  ownKeys,
} from "./intrinsics.ts";
import { wholeMilliseconds } from "./clock.ts";

function replaceDate(): void {
  const text = EngineDate.prototype.toString;
  const Replaced = function Date(this: Any, ...args: Any[]) {
    if (new.target === undefined) return apply(text, new EngineDate(wholeMilliseconds()), []);
    return construct(EngineDate, args.length === 0 ? [wholeMilliseconds()] : args, new.target);
  };
  const kept = ownKeys(EngineDate);
  for (let i = 0; i < kept.length; i++) defineProperty(Replaced, kept[i], descriptorOf(EngineDate, kept[i])!);
  hidden(Replaced, "now", { now: () => wholeMilliseconds() }.now);
  hidden(EngineDate.prototype, "constructor", Replaced);
  hidden(globalThis, "Date", Replaced);
}

/** Without an argument, and for `undefined`, formats show the present. */
function replaceFormats(): void {
  const proto = Intl.DateTimeFormat.prototype;
  const formatOf = getter(proto, "format");
  const parts = proto.formatToParts;
  const given = (date: Any) => (date === undefined ? wholeMilliseconds() : date);
  const made = new WeakMap();
  const known = WeakMap.prototype.get, keep = WeakMap.prototype.set;
  defineProperty(proto, "format", {
    __proto__: null,
    get: getterIn({
      get format() {
        const format = formatOf(this); // throws for anything else
        let bound = apply(known, made, [format]);
        if (bound === undefined) {
          bound = (date: Any) => apply(format, undefined, [given(date)]);
          apply(keep, made, [format, bound]);
        }
        return bound;
      },
    }, "format"),
    configurable: true,
    enumerable: false,
  } as Any);
  hidden(
    proto,
    "formatToParts",
    {
      formatToParts(date: Any) {
        return apply(parts, this, [given(date)]);
      },
    }.formatToParts,
  );
}

function replaceTemporal(): void {
  const { Temporal } = globalThis as Any;
  if (Temporal === undefined) return;
  const { Instant, Now } = Temporal;
  const fromMs = Instant.fromEpochMilliseconds, inZone = Instant.prototype.toZonedDateTimeISO;
  const zoned = Temporal.ZonedDateTime.prototype;
  const { toPlainDate, toPlainTime, toPlainDateTime } = zoned;
  const instant = () => apply(fromMs, Instant, [wholeMilliseconds()]);
  const zonedNow = (zone: Any) => apply(inZone, instant(), [zone === undefined ? "UTC" : zone]);
  const methods: Any = {
    timeZoneId: () => "UTC",
    instant: () => instant(),
    zonedDateTimeISO: (zone?: Any) => zonedNow(zone),
    plainDateTimeISO: (zone?: Any) => apply(toPlainDateTime, zonedNow(zone), []),
    plainDateISO: (zone?: Any) => apply(toPlainDate, zonedNow(zone), []),
    plainTimeISO: (zone?: Any) => apply(toPlainTime, zonedNow(zone), []),
  };
  const names = ownKeys(Now);
  for (let i = 0; i < names.length; i++) if (typeof Now[names[i]] === "function") delete Now[names[i]]; // also those of later engines
  const kept = ownKeys(methods) as string[];
  for (let i = 0; i < kept.length; i++) hidden(Now, kept[i], methods[kept[i]]);
}

export function replaceClocks(): void {
  replaceDate();
  replaceFormats();
  replaceTemporal();
}
