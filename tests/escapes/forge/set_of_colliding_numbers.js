// {"expect": {"status": "Failed", "error_type": "ValueCrossingError"}}
return new Set(Array.from({length: 20000}, (_, i) => BigInt(i) * (2n ** 61n - 1n)))
