'use strict';
// The values shared by the boot scripts. `$glovebox` is a global only while the interpreter boots. Afterwards, only the
// closures of these scripts refer to it, and no script can reach those.
{
  const $ = globalThis.$glovebox;

  // `uncurry(f)(self, ...rest)` is `f.call(self, ...rest)`, even if a script changes `Function.prototype.call` later.
  const uncurry = Function.prototype.bind.bind(Function.prototype.call);
  $.uncurry = uncurry;

  const includes = uncurry(String.prototype.includes);
  const indexOf = uncurry(String.prototype.indexOf);
  const slice = uncurry(String.prototype.slice);
  const { out, err } = $.std;
  const puts = uncurry(out.puts);
  const flush = uncurry(out.flush);

  // Both functions flush immediately, so that output survives a hard stop. `writeErr` flushes `out` first, so that the
  // output of both streams keeps its order.
  $.writeOut = (text) => {
    puts(out, text);
    flush(out);
  };
  $.writeErr = (text) => {
    flush(out);
    puts(err, text);
    flush(err);
  };

  // Returns a stack without the frames of these boot scripts.
  $.userFrames = (stack) => {
    if (!includes(stack, '(glovebox:')) return stack;
    let kept = '';
    for (let from = 0; from < stack.length; ) {
      let to = indexOf(stack, '\n', from);
      to = to < 0 ? stack.length : to + 1;
      const line = slice(stack, from, to);
      if (!includes(line, '(glovebox:')) kept += line;
      from = to;
    }
    return kept;
  };

  // Adds a global with the attributes of the language's own: writable, configurable, not enumerable.
  const { defineProperty } = Reflect;
  $.global = (name, value) => {
    defineProperty(globalThis, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  };
}
