const attempt = (name) => {
  try {
    require(name);
  } catch (error) {
    console.log(error.code, error.message.split(' it has ')[0]);
  }
};
require('fs').writeFileSync('helper.js', '');
attempt('pth');
attempt('./helpers');
attempt('https');
attempt('child_process');
attempt('node:fz');
attempt('csv-simpel');
attempt('./zzz');
