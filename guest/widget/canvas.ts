/**
 * What happy-dom leaves out and widgets use as soon as they are mounted: a canvas that draws nothing, fonts that are never loaded, and the
 * like. Names that no browser has are missing here as well, so that using one is noticed.
 */

type Canvas = { width: number; height: number };

const DRAWING =
  ("save restore scale rotate translate transform setTransform resetTransform clearRect fillRect strokeRect beginPath fill stroke clip " +
    "fillText strokeText drawImage putImageData setLineDash closePath moveTo lineTo quadraticCurveTo bezierCurveTo arcTo rect roundRect " +
    "arc ellipse drawFocusIfNeeded reset").split(" ");
const PATH = "addPath closePath moveTo lineTo quadraticCurveTo bezierCurveTo arcTo rect roundRect arc ellipse".split(
  " ",
);
const CHARACTER = 6; // pixels, roughly those of 10px sans-serif
const MOST_PIXELS = 1 << 24;

function nothing(): void {}

function methods(names: string[]): Record<string, () => void> {
  return Object.fromEntries(names.map((name) => [name, nothing]));
}

const gradient = () => ({ addColorStop: nothing });

function image(width: number, height: number) {
  const [w, h] = [Math.abs(Math.trunc(width)) || 1, Math.abs(Math.trunc(height)) || 1];
  if (w * h > MOST_PIXELS) throw new RangeError("the image is too large");
  return { width: w, height: h, colorSpace: "srgb", data: new Uint8ClampedArray(w * h * 4) };
}

function measure(text: unknown) {
  const width = String(text).length * CHARACTER;
  return {
    width,
    actualBoundingBoxLeft: 0,
    actualBoundingBoxRight: width,
    actualBoundingBoxAscent: 8,
    actualBoundingBoxDescent: 2,
    fontBoundingBoxAscent: 9,
    fontBoundingBoxDescent: 2,
  };
}

/** Knows the methods of the standard's `CanvasRenderingContext2D`, and keeps what is set on it. */
function context(canvas: Canvas) {
  return {
    canvas,
    fillStyle: "#000000",
    strokeStyle: "#000000",
    font: "10px sans-serif",
    lineWidth: 1,
    globalAlpha: 1,
    ...methods(DRAWING),
    measureText: measure,
    createLinearGradient: gradient,
    createRadialGradient: gradient,
    createConicGradient: gradient,
    createPattern: () => ({ setTransform: nothing }),
    createImageData: (width: number | Canvas, height: number) =>
      typeof width === "object" ? image(width.width, width.height) : image(width, height),
    getImageData: (_x: number, _y: number, width: number, height: number) => image(width, height),
    getLineDash: () => [],
    getTransform: () => ({ a: 1, b: 0, c: 0, d: 1, e: 0, f: 0 }),
    getContextAttributes: () => ({ alpha: true }),
    isPointInPath: () => false,
    isPointInStroke: () => false,
    isContextLost: () => false,
  };
}

function define(target: object, name: string, value: unknown): void {
  Object.defineProperty(target, name, { value, configurable: true, writable: true });
}

export function completeDocument(): void {
  const contexts = new WeakMap<object, unknown>();
  define(HTMLCanvasElement.prototype, "getContext", function (this: Canvas, kind: string) {
    if (kind !== "2d") return null; // as on a machine without a graphics card
    if (!contexts.has(this)) contexts.set(this, context(this));
    return contexts.get(this);
  });
  define(HTMLCanvasElement.prototype, "toDataURL", () => "data:,");
  define(SVGElement.prototype, "getComputedTextLength", function (this: Element) {
    return (this.textContent ?? "").length * CHARACTER;
  });
  define(document, "fonts", {
    ready: Promise.resolve(),
    status: "loaded",
    size: 0,
    check: () => true,
    load: () => Promise.resolve([]),
    add: nothing,
    addEventListener: nothing,
    removeEventListener: nothing,
  });
  define(
    globalThis,
    "Path2D",
    class Path2D {
      constructor() {
        Object.assign(this, methods(PATH));
      }
    },
  );
  define(
    globalThis,
    "requestIdleCallback",
    (callback: (deadline: object) => void) => setTimeout(callback, 1, { didTimeout: false, timeRemaining: () => 10 }),
  );
  define(globalThis, "cancelIdleCallback", clearTimeout);
  define(globalThis, "print", nothing);
}
