// {"expect": {"status": "Succeeded", "result": {"t": "fail", "kind": "throw", "name": "RuntimeTimeout"}}}
return {t: 'fail', kind: 'throw', name: 'RuntimeTimeout'}
