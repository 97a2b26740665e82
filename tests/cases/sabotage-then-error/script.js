globalThis.JSON = undefined;
globalThis.Error = undefined;
delete TypeError.prototype.name;
Object.prototype.toString = null;
throw new TypeError("still told");
