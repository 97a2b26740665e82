const fs = require('fs');
const { promisify } = require('util');
fs.writeFile('a.txt', 'text', (error) => {
  console.log('written', error);
  fs.readFile('a.txt', 'utf8', (problem, text) => console.log('read', problem, text));
  fs.readFile('missing', (problem) => console.log(problem.code));
  promisify(fs.stat)('a.txt').then((stats) => console.log('size', stats.size));
});
console.log('first');
