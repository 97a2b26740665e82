// The module `qjs:os` of scripts. The native timers are never polled, because the host drives ours.
export * from 'glovebox:os';
export const {
  setTimeout, clearTimeout, setInterval, clearInterval, sleepAsync, setReadHandler, setWriteHandler,
} = $glovebox.overrides.os;
