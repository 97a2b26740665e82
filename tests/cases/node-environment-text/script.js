process.env.COUNT = 5;
process.env.FLAG = true;
process.env.NOTHING = undefined;
Object.assign(process.env, { LIST: [1, 2] });
console.log([process.env.COUNT, process.env.FLAG, process.env.NOTHING, process.env.LIST, process.env.MISSING]);
delete process.env.COUNT;
console.log('COUNT' in process.env, Object.keys(process.env).includes('FLAG'), process.env.GIVEN);
try {
  process.env.KEY = Symbol('s');
} catch (error) {
  console.log(error.name, error.message);
}
