import data from 'file://@SECRET_JSON' with { type: 'json' };
export default () => data
