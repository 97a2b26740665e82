export const half = n => n / 2;
