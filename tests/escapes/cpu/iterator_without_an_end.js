// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout", "MemoryLimitExceeded"]}}
return [...{[Symbol.iterator]: () => ({next: () => ({done: false})})}]
