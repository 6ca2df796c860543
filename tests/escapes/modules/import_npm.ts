import lodash from 'npm:lodash';
export default () => lodash.VERSION
