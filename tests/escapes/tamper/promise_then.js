// {"expect": {"status": "Succeeded", "result": 1, "calls": [["t", [1]]]}}
Promise.prototype.then = Promise.prototype.finally = function () { throw 1 }; Promise.resolve = Promise.reject = () => 'owned';
return await t(1)
