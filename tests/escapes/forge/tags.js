// {"expect": {"status": "Succeeded", "result": {"$": "bytes", "v": "!!!"}}}
return {$: 'bytes', v: '!!!'}
