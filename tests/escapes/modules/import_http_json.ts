import data from 'http://127.0.0.1:@PORT/x.json' with { type: 'json' };
export default () => data
