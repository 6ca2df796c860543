export default () => new TextDecoder().decode(new Deno.Command(Deno.execPath(), { args: ['eval', '1'] }).outputSync().stdout) + 'ran'
