"""`Sandbox` and `AsyncSandbox`: machines as applications use them."""
