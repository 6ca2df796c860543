// {"expect": {"status": "Succeeded", "result": "undefined"}}
return typeof (0, eval)('typeof __gloveport_publish === "undefined" ? undefined : __gloveport_publish')
