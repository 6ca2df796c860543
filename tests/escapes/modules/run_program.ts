export default () => new TextDecoder().decode(new Deno.Command('/bin/cat', { args: ['@SECRET_JSON'] }).outputSync().stdout)
