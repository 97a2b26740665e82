let x = new Array(100_000_000).fill(0)
