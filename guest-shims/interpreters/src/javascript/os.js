// The module `qjs:os` of scripts. Its timers are those of globals.js, because nothing polls the native ones.
export * from 'glovebox:os';
export const {
  setTimeout, clearTimeout, setInterval, clearInterval, sleepAsync, setReadHandler, setWriteHandler,
} = $glovebox.overrides.os;
