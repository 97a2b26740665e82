(async () => {
  const { mkdir, readFile, readdir, rm, writeFile } = require('fs/promises');
  await mkdir('out');
  await Promise.all(['b', 'a'].map((name) => writeFile(`out/${name}`, name)));
  console.log((await readdir('out')).sort(), await readFile('out/a', 'utf8'));
  await readFile('nope').catch((error) => console.log(error.code));
  await rm('out', { recursive: true });
  const same = require('fs').promises === require('node:fs/promises');
  console.log(same);
})();
