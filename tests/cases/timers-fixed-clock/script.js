const began = Date.now();
setTimeout(() => console.log(Math.round((Date.now() - began) / 1000)), 3_600_000);
