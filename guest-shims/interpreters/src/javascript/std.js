// The module `std` and `qjs:std` of scripts. The native `exit` would end the whole instance.
export * from 'glovebox:std';
export const { exit } = $glovebox.overrides.std;
