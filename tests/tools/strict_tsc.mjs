// Reads {files: {name: text}, schemas: [schema]} and answers with the diagnostics of `tsc --strict` per file, one program for all.
// For each schema, what json-schema-to-typescript makes of it is the file `/v/oracle<i>.ts`, which others may import.
import { compile } from "npm:json-schema-to-typescript@16.0.0";
import ts from "npm:typescript@5.9.3";

const { files, schemas } = JSON.parse(await new Response(Deno.stdin.readable).text());
const options = { additionalProperties: false, ignoreMinAndMaxItems: true, format: false, bannerComment: "" };
for (const [i, schema] of schemas.entries()) {
  files[`/v/oracle${i}.ts`] = await compile({ title: "Root", type: "object", required: ["it"], properties: { it: schema }, ...defs(schema) }, "Root", options);
}
function defs(schema) {
  const { definitions } = schema;
  delete schema.definitions;
  return definitions ? { definitions } : {};
}

const settings = { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, lib: ["lib.es2022.d.ts"], types: [], moduleResolution: 2, module: ts.ModuleKind.ES2022 };
const host = ts.createCompilerHost(settings);
const { readFile, fileExists } = host;
host.fileExists = (name) => name in files || fileExists(name);
host.readFile = (name) => files[name] ?? readFile(name);
const read = host.getSourceFile;
host.getSourceFile = (name, version) => name in files ? ts.createSourceFile(name, files[name], version) : read(name, version);
host.getCurrentDirectory = () => "/v";
host.directoryExists = () => true;
host.writeFile = () => {};

const program = ts.createProgram(Object.keys(files), settings, host);
const found = {};
for (const problem of ts.getPreEmitDiagnostics(program)) {
  const line = problem.file ? problem.file.getLineAndCharacterOfPosition(problem.start).line : -1;
  (found[problem.file?.fileName ?? ""] ??= []).push([line, ts.flattenDiagnosticMessageText(problem.messageText, "\n")]);
}
console.log(JSON.stringify(found));
