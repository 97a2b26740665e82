const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const cyclic = {};
cyclic.self = cyclic;
writeText('bad.json', '{x');
writeJson('dir/sub/good.json', { zero: 0, no: false, none: null });
const tries = {
  'missing json': () => readJson('none.json'), 'bad json': () => readJson('bad.json'), 'json of nothing': () => writeJson('z', undefined),
  'json of a function': () => writeJson('z', () => 1), 'json of a cycle': () => writeJson('z', cyclic), 'text of a directory': () => readText('dir'),
  'remove a directory': () => removeFile('dir'), 'remove nothing': () => removeFile('none'), 'copy nothing': () => copyFile('none', 'x'), 'no name': () => readText(),
  'empty name': () => readText(''), 'size of nothing': () => fileSize('none'), 'list nothing': () => listFiles('none'), outside: () => writeText('../x', '1'),
};
for (const name of Object.keys(tries)) t(name, tries[name]);
console.log(fileExists('z'), fileExists(''), readJson('dir/sub/good.json'), listFiles());
