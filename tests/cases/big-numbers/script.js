console.log(String(2n ** 200n))
console.log(String((1n << 31n) * (1n << 31n)))
