console.log(new Date().toISOString());
console.log(Date.now());
console.log(Date.now() - Date.now());
