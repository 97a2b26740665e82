const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const bytes = (...items) => new Uint8Array(items);
t('mark', () => new TextDecoder().decode(bytes(0xef, 0xbb, 0xbf, 97, 0xff)));
t('mark kept', () => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes(0xef, 0xbb, 0xbf, 97)).length);
t('half', () => new TextDecoder('utf-16le').decode(bytes(97, 0, 0, 0xd8)));
t('windows', () => [new TextDecoder('latin1').encoding, new TextDecoder('windows-1252').decode(bytes(0x80, 0xe9))]);
t('sequences', () => new TextDecoder().decode(bytes(0xf0, 0x9f, 0x41, 0xe2, 0x28, 0xa1, 0xc0, 0x80, 0xed, 0xa0, 0x80)));
t('fatal', () => new TextDecoder('utf8', { fatal: true }).decode(bytes(0xff)));
t('label', () => new TextDecoder('nope'));
t('stream', () => {
  const decoder = new TextDecoder();
  return [decoder.decode(bytes(0xe2, 0x82), { stream: true }), decoder.decode(bytes(0xac), { stream: true }), decoder.decode()];
});
t('encode', () => [new TextEncoder().encode('é\ud800'), new TextEncoder().encodeInto('éa', new Uint8Array(2))]);
