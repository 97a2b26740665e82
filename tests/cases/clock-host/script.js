const began = performance.now();
os.sleep(50);
const took = performance.now() - began;
console.log(Date.now() > 1_760_000_000_000, 40 < took && took < 5000);
