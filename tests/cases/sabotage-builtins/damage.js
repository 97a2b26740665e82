globalThis.JSON = undefined;
Object.prototype.toString = null;
Promise.prototype.then = null;
Array.prototype.push = () => { throw 1; };
delete Error.prototype.stack;
console.log = null;
