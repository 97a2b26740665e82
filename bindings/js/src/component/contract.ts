/** The types of the contract with their documentation, which `npm run build` generates from `wit/`. */
export type * from '../../contract/interfaces/glovebox-sandbox-types.js';
