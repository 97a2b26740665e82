const { Blob: same } = require('buffer');
(async () => {
  const blob = new Blob(['a,b\n', new Uint8Array([49, 44, 50]), new Blob(['é'])], { type: 'Text/CSV' });
  console.log(blob.size, blob.type, await blob.text(), (await blob.arrayBuffer()).byteLength, same === Blob);
  console.log(await blob.slice(-2).text(), blob.slice(1, 3, 'x/y').type, blob instanceof Blob, Object.prototype.toString.call(blob));
  const file = new File([blob, '!'], 'x.txt', { lastModified: 5 });
  console.log(file.name, file.size, file.lastModified, file instanceof Blob, blob);
  try {
    new Blob('text');
  } catch (error) {
    console.log(error.name, error.code);
  }
})();
