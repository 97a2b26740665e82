// An instance of a component that `transpile.mjs` made JavaScript modules of.
export function load<Root>(directory: string): Promise<(imports?: object) => Promise<Root>>;
