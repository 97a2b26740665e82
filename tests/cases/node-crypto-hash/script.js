const crypto = require('crypto');
for (const name of ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']) {
  console.log(name, crypto.createHash(name).update('The quick ').update(Buffer.from('brown fox')).digest('hex'));
}
console.log(crypto.createHash('sha256').update('x'.repeat(1000)).digest('base64'));
console.log(crypto.createHmac('sha256', 'key').update('data').digest('hex'));
console.log(crypto.pbkdf2Sync('secret', 'salt', 10, 20, 'sha512').toString('hex'));
