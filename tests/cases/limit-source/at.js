console.log("a")//0
