'use strict';
// The functions that the host calls. Only the host holds them, so no script can reach them.
{
  const $ = globalThis.$glovebox;
  const { inspect, uncurry, writeErr } = $;
  const { constructorName, framesOf, isError, read, safeString } = $.text;
  const { getenviron, setenv, unsetenv } = $.std;
  const standardIn = $.std.in;
  const flush = uncurry(standardIn.flush);
  const clearError = uncurry(standardIn.clearerr ?? standardIn.flush);

  // Maximum lengths of the values returned to the host, in UTF-16 units.
  const MOST_NAME = 256;
  const MOST_MESSAGE = 16384;
  const MOST_TRACEBACK = 65536;

  const slice = uncurry(String.prototype.slice);
  const { keys } = Object;

  const cut = (text, most) => (text.length > most ? slice(text, 0, most) + '…' : text);
  const nameOf = (value) => {
    try {
      return constructorName(value) ?? '';
    } catch {
      return '';
    }
  };

  // Describes a thrown value without printing it. The host reads the properties one by one.
  const facts = (thrown) => {
    let type = '';
    let message;
    let traceback;
    let stack = '';
    if (isError(thrown)) {
      type = nameOf(thrown);
      if (type === '' || type === 'Error') {
        const own = read(thrown, 'name');
        if (typeof own === 'string' && own !== '') type = own;
      }
      const text = read(thrown, 'message');
      message = text === undefined ? '' : safeString(text);
      traceback = inspect(thrown, 2);
      stack = framesOf(thrown);
    } else {
      const shown = inspect(thrown, 2);
      if (thrown !== null && (typeof thrown === 'object' || typeof thrown === 'function')) type = nameOf(thrown);
      const text = type === '' ? undefined : read(thrown, 'message');
      message = typeof thrown === 'string' ? thrown : typeof text === 'string' ? text : shown;
      traceback = `Uncaught ${shown}`;
    }
    return {
      type: cut(type, MOST_NAME),
      message: cut(message, MOST_MESSAGE),
      traceback: cut(traceback, MOST_TRACEBACK),
      stack: cut(stack, MOST_MESSAGE),
    };
  };

  $.facts = facts;
  $.cut = cut;

  // Describes a thrown value and prints it, at the end of an execution.
  $.report = (thrown) => {
    const found = facts(thrown);
    writeErr(found.traceback + '\n');
    return found;
  };

  $.complain = (text) => {
    writeErr(text);
  };

  // The names of the running execution's environment variables. The image's own environment is empty.
  let environment = keys(getenviron());
  for (let i = 0; i < environment.length; i++) unsetenv(environment[i]);
  environment = [];

  // Installs the input of one execution: `scriptArgs`, the environment, and standard input without buffered text.
  $.prepare = (input) => {
    const names = [input.name];
    for (let i = 0; i < input.args.length; i++) names[i + 1] = input.args[i];
    $.global('scriptArgs', names);
    for (let i = 0; i < environment.length; i++) unsetenv(environment[i]);
    environment = keys(input.env);
    for (let i = 0; i < environment.length; i++) setenv(environment[i], input.env[environment[i]]);
    $.enter(input, input.env);
    if (input.stdin) {
      // Discards buffered input of the previous execution.
      flush(standardIn);
      clearError(standardIn);
    }
  };
  $.prepare({ name: '<sandbox>', args: [], env: {}, stdin: false });
}
