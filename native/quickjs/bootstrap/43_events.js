// Event, CustomEvent, EventTarget (https://dom.spec.whatwg.org/#events, for targets without a tree), AbortSignal and
// AbortController (https://dom.spec.whatwg.org/#aborting-ongoing-activities).
(native, primordials) => {
  'use strict';
  const { apply, list, push, TypeError, dictionary } = primordials;
  const { now, origin, quietTimer } = native;
  const { DOMException, queueMicrotask } = globalThis;
  const NONE = 0, AT_TARGET = 2;

  // An error in a listener does not reach the dispatcher: it is reported as one in a timer is.
  const report = (error) => queueMicrotask(() => { throw error; });

  let begin, stopped, passiveCall, typeOf, isEvent; // what only this file may do with events
  class Event {
    #type; #bubbles; #cancelable; #composed; #time;
    #target = null; #phase = NONE; #stop = false; #stopNow = false; #canceled = false; #passive = false; #busy = false; #trusted = false;
    constructor(type, options = undefined) {
      if (arguments.length === 0) throw new TypeError('Event: 1 argument is needed');
      const bag = dictionary(options, 'Event');
      this.#type = '' + type;
      this.#bubbles = !!bag.bubbles;
      this.#cancelable = !!bag.cancelable;
      this.#composed = !!bag.composed;
      this.#time = now() - origin();
    }
    get type() { return this.#type; }
    get target() { return this.#target; }
    get srcElement() { return this.#target; }
    get currentTarget() { return this.#phase === NONE ? null : this.#target; }
    get eventPhase() { return this.#phase; }
    get bubbles() { return this.#bubbles; }
    get cancelable() { return this.#cancelable; }
    get composed() { return this.#composed; }
    get defaultPrevented() { return this.#canceled; }
    get returnValue() { return !this.#canceled; }
    set returnValue(value) { if (!value) this.#cancel(); }
    get cancelBubble() { return this.#stop; }
    set cancelBubble(value) { if (value) this.#stop = true; }
    get isTrusted() { return this.#trusted; }
    get timeStamp() { return this.#time; }
    composedPath() { return this.#phase === NONE ? [] : [this.#target]; }
    stopPropagation() { this.#stop = true; }
    stopImmediatePropagation() { this.#stop = this.#stopNow = true; }
    preventDefault() { this.#cancel(); }
    #cancel() { if (this.#cancelable && !this.#passive) this.#canceled = true; }
    static {
      begin = (event, target, trusted) => {
        if (target === null) {
          event.#phase = NONE;
          event.#busy = event.#stop = event.#stopNow = false;
          return !event.#canceled;
        }
        if (event.#busy) throw new DOMException('The event is already being dispatched', 'InvalidStateError');
        event.#busy = true;
        event.#target = target;
        event.#phase = AT_TARGET;
        event.#trusted = trusted;
        return true;
      };
      stopped = (event) => event.#stopNow;
      passiveCall = (event, passive) => { event.#passive = passive; };
      typeOf = (event) => event.#type;
      isEvent = (value) => typeof value === 'object' && value !== null && #type in value;
      primordials.addBrand(isEvent, (event) => ({
        type: event.#type, cancelable: event.#cancelable, defaultPrevented: event.#canceled, timeStamp: event.#time,
      }));
    }
  }
  const phases = { __proto__: null, NONE, CAPTURING_PHASE: 1, AT_TARGET, BUBBLING_PHASE: 3 };
  for (const name in phases) {
    const constant = { __proto__: null, value: phases[name], enumerable: true };
    primordials.defineProperty(Event, name, constant);
    primordials.defineProperty(Event.prototype, name, constant);
  }

  class CustomEvent extends Event {
    #detail;
    constructor(type, options = undefined) {
      if (arguments.length === 0) throw new TypeError('CustomEvent: 1 argument is needed');
      super(type, options);
      const detail = dictionary(options, 'CustomEvent').detail;
      this.#detail = detail === undefined ? null : detail;
    }
    get detail() { return this.#detail; }
  }

  const call = (callback, target, event) => {
    try {
      if (typeof callback === 'function') {
        apply(callback, target, [event]);
        return;
      }
      const handle = callback.handleEvent;
      if (typeof handle !== 'function') throw new TypeError('handleEvent of an event listener is not a function');
      apply(handle, callback, [event]);
    } catch (error) {
      report(error);
    }
  };

  let fire, setHandler, getHandler;
  class EventTarget {
    #listeners = list();
    addEventListener(type, callback, options = undefined) {
      const listeners = this.#listeners;
      if (arguments.length < 2) throw new TypeError('addEventListener: 2 arguments are needed');
      const name = '' + type, flat = typeof options === 'boolean', bag = flat ? { __proto__: null } : dictionary(options, 'addEventListener');
      const capture = flat ? options : !!bag.capture, once = !!bag.once, passive = !!bag.passive, signal = bag.signal;
      if (signal !== undefined && !isSignal(signal)) throw new TypeError('addEventListener: signal must be an AbortSignal');
      if (callback === null || callback === undefined) return;
      if (typeof callback !== 'function' && typeof callback !== 'object') throw new TypeError('addEventListener: the listener must be a function or an object');
      if (signal !== undefined && isAborted(signal)) return;
      for (let i = 0; i < listeners.n; i++) {
        const l = listeners[i];
        if (l.name === name && l.callback === callback && l.capture === capture) return;
      }
      const listener = { __proto__: null, name, callback, capture, once, passive, gone: false };
      push(listeners, listener);
      if (signal !== undefined) onAbort(signal, () => EventTarget.#drop(listeners, listener));
    }
    removeEventListener(type, callback, options = undefined) {
      const listeners = this.#listeners;
      if (arguments.length < 2) throw new TypeError('removeEventListener: 2 arguments are needed');
      const name = '' + type;
      const capture = typeof options === 'boolean' ? options : !!dictionary(options, 'removeEventListener').capture;
      for (let i = 0; i < listeners.n; i++) {
        const l = listeners[i];
        if (l.name === name && l.callback === callback && l.capture === capture) {
          EventTarget.#drop(listeners, l);
          return;
        }
      }
    }
    dispatchEvent(event) {
      this.#listeners;
      if (!isEvent(event)) throw new TypeError('dispatchEvent: the argument must be an Event');
      return fire(this, event, false);
    }
    static #drop(listeners, listener) {
      listener.gone = true;
      let n = 0;
      for (let i = 0; i < listeners.n; i++) if (listeners[i] !== listener) listeners[n++] = listeners[i];
      for (let i = n; i < listeners.n; i++) listeners[i] = undefined;
      listeners.n = n;
    }
    static {
      fire = (target, event, trusted) => {
        begin(event, target, trusted);
        const listeners = target.#listeners, type = typeOf(event), todo = list();
        for (let i = 0; i < listeners.n; i++) if (listeners[i].name === type) push(todo, listeners[i]);
        for (let pass = 0; pass < 2; pass++) { // capturing listeners come first, also at the target
          for (let i = 0; i < todo.n && !stopped(event); i++) {
            const l = todo[i];
            if (l.gone || l.capture !== (pass === 0)) continue;
            if (l.once) EventTarget.#drop(listeners, l);
            passiveCall(event, l.passive);
            call(l.callback, target, event);
            passiveCall(event, false);
          }
        }
        return begin(event, null, trusted);
      };
      // `onabort`: one listener that keeps its place while its function is replaced.
      getHandler = (target, name) => {
        for (let i = 0; i < target.#listeners.n; i++) {
          const l = target.#listeners[i];
          if (l.handler === true && l.name === name) return l;
        }
        return null;
      };
      setHandler = (target, name, value) => {
        const old = getHandler(target, name), usable = typeof value === 'function' || (typeof value === 'object' && value !== null);
        if (!usable) {
          if (old !== null) EventTarget.#drop(target.#listeners, old);
        } else if (old !== null) {
          old.value = value;
        } else {
          const l = { __proto__: null, name, handler: true, value, capture: false, once: false, passive: false, gone: false };
          l.callback = function (event) { if (typeof l.value === 'function') apply(l.value, this, [event]); };
          push(target.#listeners, l);
        }
      };
      primordials.addBrand((value) => #listeners in value);
    }
  }
  // ── aborting ──
  const MAKE = { __proto__: null }; // only this file can construct a signal
  let isSignal, isAborted, reasonOf, onAbort, abort, depend;
  class AbortSignal extends EventTarget {
    #aborted = false; #reason; #steps = list(); #dependents = list();
    constructor(key) {
      if (key !== MAKE) throw new TypeError('AbortSignal: Illegal constructor; use an AbortController');
      super();
    }
    static abort(reason = undefined) {
      const signal = new AbortSignal(MAKE);
      signal.#set(reason);
      return signal;
    }
    static timeout(milliseconds) {
      const ms = +milliseconds;
      if (!(ms >= 0 && ms <= 9007199254740991)) throw new TypeError('AbortSignal.timeout: the time must be a number of milliseconds, 0 or more');
      const signal = new AbortSignal(MAKE);
      quietTimer(() => abort(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), ms > 2147483647 ? 2147483647 : ms);
      return signal;
    }
    static any(signals) {
      const result = new AbortSignal(MAKE), sources = list();
      for (const signal of signals) { // the guest's own iterator, as the standard says
        if (!isSignal(signal)) throw new TypeError('AbortSignal.any: every element must be an AbortSignal');
        push(sources, signal);
      }
      for (let i = 0; i < sources.n; i++) {
        if (isAborted(sources[i])) {
          result.#set(reasonOf(sources[i]));
          return result;
        }
      }
      for (let i = 0; i < sources.n; i++) depend(sources[i], result);
      return result;
    }
    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    get onabort() {
      this.#aborted;
      const listener = getHandler(this, 'abort');
      return listener === null ? null : listener.value;
    }
    set onabort(value) {
      this.#aborted;
      setHandler(this, 'abort', value);
    }
    throwIfAborted() { if (this.#aborted) throw this.#reason; }
    #set(reason) {
      this.#aborted = true;
      this.#reason = reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason;
    }
    static {
      primordials.addBrand((value) => #aborted in value, (signal) => ({ aborted: signal.#aborted }));
      isSignal = (value) => typeof value === 'object' && value !== null && #aborted in value;
      isAborted = (signal) => signal.#aborted;
      reasonOf = (signal) => signal.#reason;
      onAbort = (signal, step) => push(signal.#steps, step);
      depend = (signal, dependent) => push(signal.#dependents, dependent);
      const run = (signal) => {
        const steps = signal.#steps;
        signal.#steps = list();
        for (let i = 0; i < steps.n; i++) steps[i]();
        fire(signal, new Event('abort'), true);
      };
      abort = (signal, reason) => {
        if (signal.#aborted) return;
        signal.#set(reason);
        // All that depend on it are aborted before any listener runs. A dependent of a dependent is found through it.
        const todo = list(), seen = list();
        push(todo, signal);
        for (let i = 0; i < todo.n; i++) {
          const dependents = todo[i].#dependents;
          todo[i].#dependents = list();
          for (let k = 0; k < dependents.n; k++) {
            if (dependents[k].#aborted) continue;
            dependents[k].#set(signal.#reason);
            push(todo, dependents[k]);
          }
        }
        for (let i = 0; i < todo.n; i++) run(todo[i]);
      };
    }
  }

  class AbortController {
    #signal = new AbortSignal(MAKE);
    get signal() { return this.#signal; }
    abort(reason = undefined) { abort(this.#signal, reason); }
    static { primordials.addBrand((value) => #signal in value, (controller) => ({ signal: controller.#signal })); }
  }
  for (const Class of [Event, CustomEvent, EventTarget, AbortSignal, AbortController]) primordials.platformClass(Class, Class.name);
}
