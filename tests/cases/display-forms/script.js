display([1, 'é']);
display('é');
display.html('<b>a</b>');
display.svg('<svg/>');
display({ 'image/png': new Uint8Array([137, 80, 78, 71]), 'text/markdown': '*m*' }, { raw: true });
display({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<i>', 'application/json': { n: [1, null] } }) });
console.log('done');
