console.log("body");
setTimeout(() => {
  throw new Error("in timer");
}, 1);
