// {"expect": {"status": "Failed", "error_type": "Error"}}
throw new Proxy(new Error('x'), {get() { for (;;); }, getPrototypeOf() { for (;;); }, getOwnPropertyDescriptor() { for (;;); }})
