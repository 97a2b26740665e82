console.log("before");
while (true) {}
