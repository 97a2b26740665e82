console.log("Hello from JavaScript", 6 * 7);
