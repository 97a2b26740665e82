console.log(JSON.stringify(scriptArgs.slice(1)));
