export default () => new Promise((done, fail) => {
  const w = new Worker('data:text/javascript,postMessage(Deno.readTextFileSync("@SECRET_JSON"))', { type: 'module' });
  w.onmessage = (e) => done(e.data);
  w.onerror = (e) => { e.preventDefault(); fail(new Error(e.message)) };
})
