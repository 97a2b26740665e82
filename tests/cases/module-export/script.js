export const x = 1;
console.log(typeof this);
