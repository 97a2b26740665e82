const fs = require('fs');
const made = [];
try {
  for (let i = 0; i < 5_000; i++) {
    const name = `${i}`.padStart(5, '0') + 'n'.repeat(200);
    fs.mkdirSync(name);
    made.push(name);
  }
  console.log('never full');
} catch {
  console.log('full');
}
made.forEach((name) => fs.rmdirSync(name));
