"""What executes code: the `wasm` engine, the compiler that prepares code for it, and the jail around both."""
