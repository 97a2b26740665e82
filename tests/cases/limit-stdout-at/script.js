console.log("x".repeat(999))
