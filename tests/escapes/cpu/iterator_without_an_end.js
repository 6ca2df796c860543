// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return [...{[Symbol.iterator]: () => ({next: () => ({done: false})})}]
