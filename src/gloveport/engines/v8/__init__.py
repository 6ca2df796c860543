"""The V8 engine: single-use jailed Deno processes, one for each session, that were started before they are wanted."""
