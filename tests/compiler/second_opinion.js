// Answers JSON lines for the tests; see V8 in conftest.py.
const AsyncFunction = (async () => {}).constructor;

async function attempt(step) {
  try {
    return (await step()) ?? null;
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

async function run({ code, later }) {
  const scope = { __proto__: null };
  const publish = (bindings) => {
    for (const name of Object.keys(bindings)) {
      const [get, set] = bindings[name];
      Object.defineProperty(scope, name, { get, set, configurable: true });
    }
  };
  const results = [await attempt(() => (0, eval)(code)(publish))];
  for (const expression of later) {
    results.push(await attempt(() => new Function("scope", `with (scope) { return ${expression} }`)(scope)));
  }
  return results;
}

function isBody({ source }) {
  try {
    new AsyncFunction(source);
    return true;
  } catch {
    return false;
  }
}

const encoder = new TextEncoder();
let pending = "";
for await (const chunk of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (pending + chunk).split("\n");
  pending = lines.pop();
  for (const line of lines) {
    const request = JSON.parse(line);
    const answer = request.op === "run" ? await run(request) : isBody(request);
    await Deno.stdout.write(encoder.encode(JSON.stringify(answer) + "\n"));
  }
}
