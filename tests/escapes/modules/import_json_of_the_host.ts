import data from '@SECRET_JSON' with { type: 'json' };
export default () => data
