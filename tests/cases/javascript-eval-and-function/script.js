console.log(eval("1 + 2"));
console.log(new Function("a", "b", "return a + b")(3, 4));
