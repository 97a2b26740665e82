console.log(1)
// two
throw new TypeError("three")
