console.log("body");
Promise.reject(new TypeError("lost"));
