console.log("waiting");
setTimeout(() => console.log("never"), 60000);
