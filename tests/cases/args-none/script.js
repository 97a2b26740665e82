console.log(scriptArgs.length)
