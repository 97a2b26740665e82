setTimeout(() => console.log("later"), 30);
setTimeout(() => console.log("soon"), 10);
setTimeout(() => console.log("now"), 0);
const cleared = setTimeout(() => console.log("never"), 5);
clearTimeout(cleared);
Promise.resolve().then(() => console.log("micro"));
console.log("sync");
