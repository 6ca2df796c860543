"""Sessions of modules: `TypeScriptSandboxSession`."""
