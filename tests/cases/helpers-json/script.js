writeJson('data/config.json', { name: 'x', list: [1, 2] });
const config = readJson('data/config.json');
config.list.push(3);
writeJson('data/config.json', config);
console.log(readJson('data/config.json'), fileSize('data/config.json'));
writeText('a.txt', 'one\ntwo\n');
appendText('a.txt', 'three\n');
console.log(readLines('a.txt'), readText('a.txt').length, fileExists('a.txt'), fileExists('b.txt'));
