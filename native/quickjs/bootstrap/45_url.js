// The URL classes of 02_url.bundle become globals.
(native, primordials) => {
  'use strict';
  const { defineProperty, list, push, url, addBrand, apply } = primordials;
  for (const name of ['URL', 'URLSearchParams']) {
    defineProperty(url[name], 'name', { __proto__: null, value: name, configurable: true });
    primordials.global(name, url[name]);
  }
  const getters = list();
  for (const name of ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash']) {
    push(getters, { __proto__: null, name, get: Object.getOwnPropertyDescriptor(url.URL.prototype, name).get });
  }
  const { forEach } = url.URLSearchParams.prototype;
  addBrand(url.is, (value) => {
    const shown = {};
    for (let i = 0; i < getters.n; i++) primordials.setOwn(shown, getters[i].name, apply(getters[i].get, value, []));
    return shown;
  });
  addBrand(url.isParams, (value) => {
    const pairs = list();
    apply(forEach, value, [(text, key) => push(pairs, `${primordials.quote(key)} => ${primordials.quote(text)}`)]);
    return primordials.join(pairs, ', ');
  });
}
