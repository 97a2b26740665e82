const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

for (const [name, value] of Object.entries({ number: 5, none: null, object: {}, missing: undefined })) t(name, () => Buffer.from(value));
t('encoding', () => Buffer.from('x', 'nope'));
t('alloc', () => Buffer.alloc('5'));
t('concat', () => Buffer.concat('x'));
t('concat of text', () => Buffer.concat(['x']));
t('over the end', () => Buffer.alloc(2).readUInt32LE(0));
t('too large', () => Buffer.alloc(2).writeUInt8(256, 0));
t('offset', () => Buffer.alloc(8).readInt8(9));
t('fraction', () => Buffer.alloc(8).readInt8(1.5));
t('text', () => Buffer.alloc(8).readInt8('1'));
t('swap', () => Buffer.from([1]).swap16());
