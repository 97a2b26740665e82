console.log(Math.floor(Date.now() / 1000));
const began = Date.now();
os.sleep(3600_000);
console.log(Math.round((Date.now() - began) / 1000));
console.log(Math.floor(Date.now() / 1000));
