export default () => new Promise((done, fail) => { const s = new WebSocket('ws://127.0.0.1:@PORT/'); s.onopen = () => done('connected'); s.onerror = (e) => fail(new Error(e.message)) })
