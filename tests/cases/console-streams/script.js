console.log("line1");
console.warn("warned");
console.info("line2");
console.error("failed");
console.debug("line3");
