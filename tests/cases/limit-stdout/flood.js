console.log("x".repeat(9999))
