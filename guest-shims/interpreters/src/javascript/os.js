// What scripts import as `qjs:os`. The native timers are never polled: the host drives ours.
export * from 'glovebox:os';
export const {
  setTimeout, clearTimeout, setInterval, clearInterval, sleepAsync, setReadHandler, setWriteHandler,
} = $glovebox.overrides.os;
