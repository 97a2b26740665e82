setTimeout(() => {
  console.log("timer");
  std.exit(8);
}, 1);
