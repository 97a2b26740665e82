const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const crypto = require('crypto');
for (const name of ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'SHA256']) {
  console.log(name, crypto.createHash(name).update('héllo').update(Buffer.from([1, 2, 3])).digest('hex'));
  console.log(name, crypto.createHmac(name, 'k'.repeat(200)).update('data').digest('base64'));
}
for (const length of [0, 55, 56, 63, 64, 65, 111, 112, 127, 128, 129]) {
  console.log(length, crypto.createHash('sha1').update('x'.repeat(length)).digest('hex'), crypto.createHash('sha512').update('x'.repeat(length)).digest('base64url'));
}
t('twice', () => {
  const hash = crypto.createHash('md5');
  hash.digest();
  return hash.digest();
});
t('number', () => crypto.createHash('md5').update(5));
t('pbkdf2', () => crypto.pbkdf2Sync('p', 's', 10, 32, 'sha256').toString('hex'));
t('lengths', () => crypto.timingSafeEqual(Buffer.from('a'), Buffer.from('ab')));
t('range', () => crypto.randomInt(5, 5));
console.log(crypto.randomBytes(8).length, crypto.randomInt(3) < 3, crypto.randomUUID().length);
