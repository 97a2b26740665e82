var state = "pending";
setTimeout(() => {
  state = "done";
  console.log("finished");
}, 5);
console.log("started");
