/**
 * Loads the worker's program, 4 MB, as text: Deno reads every module with a parser of its own before V8 does, which takes twice as long
 * as all the rest (Deno 2.9.8; it keeps what it found in a cache, which these workers do not have).
 */

import vm from "node:vm";

const program = Deno.readTextFileSync(new URL("./mount-program.js", import.meta.url));
vm.compileFunction(program, ["builtin"], { filename: "mount-program.js" })(process.getBuiltinModule);
await new Promise(() => {}); // the program ends the process; a module that is done makes Deno fire `load` at a document that is not its own
