// What scripts import as `std` and `qjs:std`. The native `exit` would end the whole instance.
export * from 'glovebox:std';
export const { exit } = $glovebox.overrides.std;
