console.log(Math.random() !== first)
