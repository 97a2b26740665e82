throw new Error("x".repeat(3000000))
