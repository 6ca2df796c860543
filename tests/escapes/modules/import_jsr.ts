import { x } from 'jsr:@std/assert';
export default () => typeof x
