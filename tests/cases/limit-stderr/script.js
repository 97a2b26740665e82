console.error("e".repeat(5000));
console.log("whole");
