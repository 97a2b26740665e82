const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);

console.log("Hello from JavaScript");
console.log({ fib: Array.from({ length: 10 }, (_, n) => fib(n)) });
