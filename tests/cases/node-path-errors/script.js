const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const path = require('path');
t('join', () => path.join(1));
t('basename', () => path.basename(null));
t('suffix', () => path.basename('a', 5));
t('resolve', () => path.resolve({}));
t('dirname', () => path.dirname());
