// {"expect": {"status": "Succeeded", "result": 5, "calls": [["t", [5]]]}}
for (const k of ['t','v','n','a','f','id','name','message','then','value','ok','status','error','kind']) Object.defineProperty(Object.prototype, k, {__proto__: null, get() { return 'owned' }, set() {}, configurable: true});
return await t(5)
