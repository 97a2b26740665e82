console.log("é".repeat(10))
