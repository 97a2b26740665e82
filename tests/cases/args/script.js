console.log(JSON.stringify(scriptArgs));
