console.log("said");
console.error("aside");
