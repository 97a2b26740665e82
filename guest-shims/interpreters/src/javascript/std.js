// The modules `std` and `qjs:std` that scripts import. Replaces the native `exit`, which would end the whole instance.
export * from 'glovebox:std';
export const { exit } = $glovebox.overrides.std;
