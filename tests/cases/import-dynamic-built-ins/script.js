const fs = require('fs');
for (const name of ['ut' + 'il', 'pa' + 'th', 'node:ev' + 'ents']) {
  const file = './uses-' + name.replace(':', '-') + '.mjs';
  fs.writeFileSync(file, `import * as it from '${name}';\nexport const count = Object.keys(it).length;\n`);
  console.log(name, (await import(file)).count > 1 ? 'ok' : 'empty');
}
console.log(fs.statSync('', { throwIfNoEntry: false }), fs.lstatSync('', { throwIfNoEntry: false }));
