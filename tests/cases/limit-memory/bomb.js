let x = new Array(100_000_000)
console.log(x.length)
x.fill(0)
