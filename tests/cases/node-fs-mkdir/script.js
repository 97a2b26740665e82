const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const fs = require('fs');
t('made', () => fs.mkdirSync('a/b/c', { recursive: true }));
t('there', () => fs.mkdirSync('a/b/c', { recursive: true }));
t('deeper', () => fs.mkdirSync('a/b/c/d/e', { recursive: true }));
t('exists', () => fs.mkdirSync('a'));
t('nowhere', () => fs.mkdirSync('x/y'));
fs.writeFileSync('file', '');
t('on a file', () => fs.mkdirSync('file', { recursive: true }));
t('in a file', () => fs.mkdirSync('file/b', { recursive: true }));
t('full', () => fs.rmdirSync('a'));
t('rm', () => fs.rmSync('a'));
t('rm all', () => fs.rmSync('a', { recursive: true }));
t('gone', () => fs.rmSync('a', { recursive: true }));
t('forced', () => fs.rmSync('a', { recursive: true, force: true }));
