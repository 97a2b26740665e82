/** The types of the contract, as `npm run build` makes them of `wit/`, with its documentation. */
export type * from '../../contract/interfaces/glovebox-sandbox-types.js';
