export default () => { const m = { exports: {} }; process.dlopen(m, '@SECRET_JSON'); return 'loaded' }
