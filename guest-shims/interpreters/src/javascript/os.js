// The module `qjs:os` that scripts import. Replaces the native timers, which nothing polls, with those of globals.js.
export * from 'glovebox:os';
export const {
  setTimeout, clearTimeout, setInterval, clearInterval, sleepAsync, setReadHandler, setWriteHandler,
} = $glovebox.overrides.os;
