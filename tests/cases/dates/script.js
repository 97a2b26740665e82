const d = new Date(Date.UTC(2024, 1, 29, 12));
console.log(d.toISOString().slice(0, 19));
console.log(new Date(d.getTime() + 864e5).toISOString().slice(0, 10));
console.log((d - Date.UTC(2023, 11, 31, 12)) / 864e5);
