"""The `wasm` engine: the guest, the workers it runs in, and the host's supply of them."""
