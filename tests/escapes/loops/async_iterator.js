// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for await (const x of {[Symbol.asyncIterator]: () => ({next: async () => ({done: false})})});
