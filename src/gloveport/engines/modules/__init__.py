"""The engine of modules: single-use jailed Deno processes that link and run whole modules."""
