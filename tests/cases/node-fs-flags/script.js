const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const fs = require('fs');
t('wx', () => fs.writeFileSync('a', '1', { flag: 'wx' }));
t('wx again', () => fs.writeFileSync('a', '2', { flag: 'wx' }));
t('a', () => fs.writeFileSync('a', '3', { flag: 'a' }));
t('append', () => fs.appendFileSync('a', Buffer.from('4')));
t('r+', () => fs.writeFileSync('none', '', { flag: 'r+' }));
t('wrong', () => fs.writeFileSync('a', '', { flag: 'zz' }));
t('number', () => fs.writeFileSync('a', 5));
t('object', () => fs.writeFileSync('a', {}));
t('read', () => fs.readFileSync('a', 'utf8'));
t('copy', () => fs.copyFileSync('a', 'a', fs.constants.COPYFILE_EXCL));
