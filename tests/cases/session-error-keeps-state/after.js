console.log(x)
