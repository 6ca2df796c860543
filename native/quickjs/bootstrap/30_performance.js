// performance.now and timeOrigin over the virtual clock.
(native, primordials) => {
  'use strict';
  const { now, origin } = native;
  const performance = { now() { return now() - origin(); } };
  primordials.defineProperty(performance, 'timeOrigin', {
    __proto__: null, get() { return origin(); }, enumerable: true, configurable: true,
  });
  primordials.defineProperty(performance, primordials.SymbolToStringTag, {
    __proto__: null, value: 'Performance', configurable: true,
  });
  primordials.global('performance', performance);
}
