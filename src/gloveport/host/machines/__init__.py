"""`Sandbox` and `AsyncSandbox`: machines as applications use them, with their networks and files."""
