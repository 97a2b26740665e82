console.log(eval("(".repeat(120) + "1" + ")".repeat(120)));
console.log(eval("(".repeat(190) + "1" + ")".repeat(190)));
