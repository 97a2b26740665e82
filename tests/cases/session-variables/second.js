x += 1;
console.log(x, hello(box.v), math.sqrt(9));
