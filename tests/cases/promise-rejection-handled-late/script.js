const p = Promise.reject(new Error("x"));
Promise.resolve().then(() => p.catch(() => console.log("handled late")));
