'use strict';
// Runs common code paths, so that state created on first use becomes part of the image.
{
  const $ = globalThis.$glovebox;
  $.os.chdir('/app');
  console.log('%s %d', 'warm', 1, [1, -0, 'a'], { a: [{ b: new Map([[1, new Set(['x'])]]) }] });
  console.error(new TypeError('warm'), new Uint8Array(2), new Date(0), /x/g, () => 1, class A {}, 1n, Symbol('s'));
  Math.random();
  setTimeout(() => {}, 1);
  $.tick();
  $.facts(new Error('warm'));
  $.show({ a: [1, 'b', null] });
  $.report(new RangeError('warm'));
  $.prepare({ name: '<sandbox>', args: ['a'], env: { A: 'b' }, stdin: true });
  $.prepare({ name: '<sandbox>', args: [], env: {}, stdin: false });
  $.reset();
}
