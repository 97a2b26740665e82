const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const fs = require('fs');
fs.writeFileSync('kept', '1');
t('exists', () => fs.existsSync(''));
for (const name of ['readFileSync', 'statSync', 'readdirSync', 'mkdirSync', 'rmdirSync', 'unlinkSync', 'openSync']) {
  try {
    fs[name]('');
    console.log(name, 'succeeded');
  } catch (error) {
    console.log(name, error.code);
  }
}
try {
  fs.rmSync('', { recursive: true });
} catch (error) {
  console.log(error.code);
}
console.log(fs.readdirSync('.'));
