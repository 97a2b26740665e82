console.error("Traceback (most recent call last): Error: handled");
console.error("OutOfFuel: fatal error, wasm trap, InternalError");
console.log("done");
