console.log(JSON.stringify(std.getenviron()));
