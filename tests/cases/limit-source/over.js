console.log("over the limit")
