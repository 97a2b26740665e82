console.log("usable")
