// Instantiates a component that `transpile.mjs` converted to JavaScript modules.
export function load<Root>(directory: string): Promise<(imports?: object) => Promise<Root>>;
