console.log(n);
