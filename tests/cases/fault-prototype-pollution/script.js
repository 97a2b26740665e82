Object.prototype.message = "polluted";
Object.prototype.name = "Polluted";
Object.prototype.code = 99;
throw new TypeError("real");
