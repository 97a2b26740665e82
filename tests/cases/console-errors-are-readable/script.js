console.log(new TypeError("printed"));
