export const name = "sub";
