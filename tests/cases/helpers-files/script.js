writeLines('in/list.txt', ['a', 'b', 3]);
copyFile('in/list.txt', 'out/deep/copy.txt');
console.log(listFiles(), listFiles('out/deep'), readText('out/deep/copy.txt'));
removeFile('in/list.txt');
console.log(listFiles('in'));
for (const wrong of [() => readText('none.txt'), () => removeFile('none.txt'), () => writeJson('x.json', undefined)]) {
  try {
    wrong();
  } catch (error) {
    console.log(error.message);
  }
}
writeText('broken.json', '{');
try {
  readJson('broken.json');
} catch (error) {
  console.log(error.name, error.message.startsWith('broken.json is no JSON'));
}
